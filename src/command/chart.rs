//! Panels over a common axis of time, written as SVG.

use std::fmt::Write as _;

/// A picture.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) subtitle: String,
    /// The length of the axis of time.
    pub(super) seconds: f64,
    /// What the axis of time counts.
    pub(super) axis: &'static str,
    /// What one value of a series covers, in seconds.
    pub(super) slice: f64,
    pub(super) panels: Vec<Panel>,
}

/// One axis of values and what is drawn over it.
pub(super) struct Panel {
    /// The unit of its axis.
    pub(super) label: &'static str,
    pub(super) height: f64,
    /// The value at its upper edge; what is higher is cut off there.
    pub(super) top: f64,
    pub(super) series: Vec<Series>,
}

/// Values, one for each slice of time.
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) colour: &'static str,
    pub(super) shape: Shape,
    pub(super) values: Vec<f64>,
}

/// How values are drawn.
pub(super) enum Shape {
    /// Bars from zero.
    Bars,
    /// Bars that stand on those of these values.
    BarsOn(Vec<f64>),
    /// A line with a step at each change.
    Steps,
}

impl Chart {
    pub(super) fn to_svg(&self) -> String {
        let height = TOP
            + self
                .panels
                .iter()
                .map(|panel| panel.height + GAP)
                .sum::<f64>()
            + BOTTOM;
        let mut svg = Svg(String::new());
        svg.put(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-family=\"Helvetica, Arial, sans-serif\" \
             font-size=\"12\">"
        ));
        svg.put(&format!(
            "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>"
        ));
        svg.text(
            LEFT,
            26.0,
            "start",
            "font-size=\"18\" font-weight=\"bold\"",
            &self.title,
        );
        svg.text(LEFT, 46.0, "start", "fill=\"#555\"", &self.subtitle);
        let mut y = TOP;
        for panel in &self.panels {
            self.panel(panel, y, &mut svg);
            y += panel.height + GAP;
        }
        self.time_axis(y - GAP, &mut svg);
        svg.put("</svg>");
        svg.0
    }

    fn panel(&self, panel: &Panel, y: f64, svg: &mut Svg) {
        let bottom = y + panel.height;
        let step = round_up(panel.top / 8.0);
        let mut value = 0.0;
        while value <= panel.top {
            let at = panel.place(value, y);
            svg.line((LEFT, at), (WIDTH - RIGHT, at), "#e6e6e6");
            svg.text(LEFT - 6.0, at + 4.0, "end", "fill=\"#555\"", &short(value));
            value += step;
        }
        for series in &panel.series {
            self.series(series, panel, y, svg);
        }
        svg.line((LEFT, y), (LEFT, bottom), "#888");
        svg.line((LEFT, bottom), (WIDTH - RIGHT, bottom), "#888");
        let turned = format!(
            "fill=\"#555\" transform=\"rotate(-90 16 {})\"",
            (y + bottom) / 2.0
        );
        svg.text(16.0, (y + bottom) / 2.0, "middle", &turned, panel.label);
        let mut x = LEFT;
        for series in &panel.series {
            svg.put(&format!(
                "<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"{}\" fill=\"{}\"/>",
                if matches!(series.shape, Shape::Steps) {
                    y - 11.0
                } else {
                    y - 15.0
                },
                if matches!(series.shape, Shape::Steps) {
                    3.0
                } else {
                    10.0
                },
                series.colour
            ));
            svg.text(x + 17.0, y - 6.0, "start", "fill=\"#333\"", series.name);
            x += 40.0 + 6.6 * series.name.len() as f64;
        }
    }

    fn series(&self, series: &Series, panel: &Panel, y: f64, svg: &mut Svg) {
        let width = (WIDTH - LEFT - RIGHT) * self.slice / self.seconds;
        match &series.shape {
            Shape::Bars => self.bars(series, &[], width, panel, y, svg),
            Shape::BarsOn(below) => self.bars(series, below, width, panel, y, svg),
            Shape::Steps => {
                let mut path = String::new();
                let mut pen = "M";
                for (index, &value) in series.values.iter().enumerate() {
                    if !value.is_finite() {
                        pen = "M";
                        continue;
                    }
                    let (x, at) = (LEFT + width * index as f64, panel.place(value, y));
                    let written = write!(path, "{pen}{x:.1} {at:.1}H{:.1}", x + width);
                    debug_assert!(written.is_ok(), "writing into a String cannot fail");
                    pen = "L";
                }
                svg.put(&format!(
                    "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>",
                    series.colour
                ));
            }
        }
    }

    fn bars(
        &self,
        series: &Series,
        below: &[f64],
        width: f64,
        panel: &Panel,
        y: f64,
        svg: &mut Svg,
    ) {
        for (index, &value) in series.values.iter().enumerate() {
            let base = below.get(index).copied().unwrap_or_default();
            if value <= 0.0 {
                continue;
            }
            let (low, high) = (panel.place(base, y), panel.place(base + value, y));
            // What is there must be seen, be it ever so little.
            let height = (low - high).max(1.5);
            svg.put(&format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{}\"/>",
                LEFT + width * index as f64,
                low - height,
                (width - 0.4).max(0.4),
                series.colour
            ));
        }
    }

    fn time_axis(&self, y: f64, svg: &mut Svg) {
        let step = round_up(self.seconds / 12.0);
        let mut at = 0.0;
        while at <= self.seconds + 1e-9 {
            let x = LEFT + (WIDTH - LEFT - RIGHT) * at / self.seconds;
            svg.line((x, y), (x, y + 5.0), "#888");
            svg.text(x, y + 19.0, "middle", "fill=\"#555\"", &short(at));
            at += step;
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        svg.text(middle, y + 38.0, "middle", "fill=\"#555\"", self.axis);
    }
}

impl Panel {
    /// Where a value stands when the panel begins at `y`.
    fn place(&self, value: f64, y: f64) -> f64 {
        let share = (value / self.top).clamp(0.0, 1.0);
        y + self.height * (1.0 - share)
    }
}

struct Svg(String);

impl Svg {
    fn put(&mut self, element: &str) {
        self.0.push_str(element);
        self.0.push('\n');
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(&format!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
        ));
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, style: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        self.put(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{text}</text>"
        ));
    }
}

/// The next of 1, 2 and 5 times a power of ten.
pub(super) fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.max(1e-9).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|step| step * power >= value * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

/// A number of an axis: no more digits than it needs.
fn short(value: f64) -> String {
    let rounded = (value * 1000.0).round() / 1000.0;
    format!("{rounded}")
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 30.0;
/// Between two panels: room for a legend.
const GAP: f64 = 34.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_an_axis_are_round() {
        for (value, expected) in [
            (0.07, 0.1),
            (1.0, 1.0),
            (1.3, 2.0),
            (34.0, 50.0),
            (700.0, 1000.0),
        ] {
            assert!((round_up(value) - expected).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn what_is_written_is_one_svg_with_its_text_escaped() {
        let series = Series {
            name: "a",
            colour: "red",
            shape: Shape::Bars,
            values: vec![1.0, 9.0],
        };
        let panel = Panel {
            label: "x",
            height: 100.0,
            top: 4.0,
            series: vec![series],
        };
        let chart = Chart {
            title: "a < b & c".into(),
            subtitle: String::new(),
            axis: "seconds since the start",
            seconds: 2.0,
            slice: 1.0,
            panels: vec![panel],
        };
        let svg = chart.to_svg();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("a &lt; b &amp; c"));
        assert!(
            svg.contains("height=\"100.0\""),
            "what is too high is cut off at the top"
        );
    }
}
