//! What the rows of a table ask for, as `run` is told.

use std::fs;
use std::path::Path;

use paceline::batch::Rows;

/// What each row of a table asks for.
#[derive(clap::Args)]
pub(super) struct Table {
    /// Where each row of a table (.csv, .tsv) goes; {{COLUMN}} stands for what the row has there.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// What each row of a table sends: JSON, or @FILE that holds it, with "{{COLUMN}}" in its texts.
    #[arg(long, value_name = "JSON", requires = "url")]
    body: Option<String>,
    /// The method of each row [default: POST with a body, else GET].
    #[arg(long, value_name = "METHOD", requires = "url")]
    method: Option<String>,
    /// Let all rows send the same request: no {{COLUMN}} has to stand in --url or --body.
    #[arg(long, requires = "url")]
    same_request: bool,
    /// The column with the custom_id of each row [default: custom_id or id, if there is one].
    #[arg(long, value_name = "COLUMN", requires = "url")]
    id: Option<String>,
}

impl Table {
    /// What rows ask for, if the input is a table.
    pub(super) fn rows(&self, input: &Path) -> Result<Option<Rows>, String> {
        if input.is_dir() {
            return Err(format!(
                "{} is a folder: name the file of requests in it",
                input.display()
            ));
        }
        let table = Rows::is_table(input);
        let Some(url) = self.url.clone() else {
            if table {
                return Err(format!(
                    "{} is a table: say what each row asks for with --url and --body, for example \
                     --url /v1/responses --body '{{\"model\": \"…\", \"input\": \"{{{{prompt}}}}\"}}', \
                     where prompt is a column",
                    input.display()
                ));
            }
            return Ok(None);
        };
        if !table && input != Path::new("-") {
            return Err(format!(
                "--url is for the rows of a table, a file whose name ends in .csv or .tsv; each \
                 line of {} has its own url: --base-url says what these are relative to",
                input.display()
            ));
        }
        let given = self.body.as_deref();
        let file = given.and_then(|body| body.strip_prefix('@'));
        let body = match (given, file) {
            (_, Some(path)) => Some(
                fs::read_to_string(path)
                    .map_err(|error| format!("cannot read the --body in {path}: {error}"))?,
            ),
            (body, None) => body.map(str::to_owned),
        };
        let rows = Rows::new(self.method.clone(), url, body, self.id.clone());
        let rows = rows.map_err(|error| match (given, file) {
            (Some(body), None) if is_name_of_file(body) => format!(
                "--body {body} is the name of a file, not JSON: --body @{body} takes what is in it"
            ),
            (_, Some(path)) => format!("in {path}: {error}"),
            _ => error.to_string(),
        })?;
        let rows = match file {
            Some(path) => rows.body_in(&format!("@{path}")),
            None => rows,
        };
        Ok(Some(if self.same_request {
            rows.alike()
        } else {
            rows
        }))
    }
}

/// Whether a text that is no JSON is rather the name of a file that has it.
fn is_name_of_file(text: &str) -> bool {
    let path = Path::new(text);
    path.is_file() || path.extension().is_some_and(|end| end == "json")
}
