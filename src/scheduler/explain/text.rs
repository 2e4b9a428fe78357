//! An explanation as people read it: a line for each head, key, quota and rest.
//!
//! Lines are short and in the order in which one asks: who is next and what binds it, then the keys,
//! then who else waits.

use std::fmt;
use std::time::Duration;

use super::{ApartReport, Explanation, Head, KeyReport, Presence, QuotaReport};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; {} waiting, {} in flight",
            self.mode, self.waiting, self.in_flight
        )?;
        if let Some(left) = self.overloaded {
            write!(
                f,
                "\nthe provider is overloaded for another {}",
                Short(left)
            )?;
        }
        for (n, head) in self.heads.iter().enumerate() {
            write!(f, "\n{} {head}", if n == 0 { "next:" } else { "then:" })?;
        }
        more(f, self.more_heads, "lanes")?;
        if self.asleep > 0 {
            write!(f, "\n{} wait for a moment of their own", self.asleep)?;
        }
        for key in &self.keys {
            write!(f, "\n{key}")?;
        }
        more(f, self.more_keys, "keys")?;
        for (n, class) in self.classes.iter().enumerate() {
            let start = if n == 0 { "\nby priority:" } else { "," };
            write!(f, "{start} {} {}", class.priority, class.waiting)?;
        }
        for (n, tenant) in self.tenants.iter().enumerate() {
            let start = if n == 0 { "\nby tenant:" } else { "," };
            match &tenant.tenant {
                Some(name) => write!(f, "{start} {name:?} {}", tenant.waiting)?,
                None => write!(f, "{start} none {}", tenant.waiting)?,
            }
            f.write_str(match tenant.presence {
                Presence::Active => "",
                Presence::Idle => " (idle)",
                Presence::Away => " (away)",
            })?;
        }
        more(f, self.more_tenants, "tenants")?;
        let seen = &self.observed;
        if seen.passed > 0 {
            write!(f, "\nobserved: {seen}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "priority {}", self.priority)?;
        if let Some(tenant) = &self.tenant {
            write!(f, ", tenant {tenant:?}")?;
        }
        if let Some(bucket) = &self.bucket {
            write!(f, ", bucket {bucket:?}")?;
        }
        if let Some(key) = self.pin {
            write!(f, ", pinned to key {key}")?;
        }
        write!(f, ", {} old", Short(self.age))?;
        match (self.waits_for, self.opens) {
            (None, _) => f.write_str(", may go"),
            (Some(reason), Some(opens)) => {
                write!(f, ", waits for {reason}: another {}", Short(opens))
            }
            (Some(reason), None) => write!(f, ", waits for {reason}"),
        }
    }
}

impl fmt::Display for KeyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}: {}", self.key, self.in_flight)?;
        if let Some(limit) = self.limit {
            write!(f, " of {limit}")?;
        }
        f.write_str(" in flight")?;
        if let Some(pace) = self.pace {
            write!(f, ", {pace:.2} per second")?;
        }
        for quota in &self.quotas {
            write!(f, "\n  {quota}")?;
        }
        more(f, self.more_quotas, "quotas")?;
        for ApartReport { bucket, pace } in &self.apart {
            write!(f, "\n  bucket {bucket:?} is refused by itself")?;
            if let Some(pace) = pace {
                write!(f, ": {pace:.2} per second")?;
            }
        }
        more(f, self.more_apart, "buckets refused by themselves")?;
        for rest in &self.rests {
            f.write_str("\n  rests")?;
            if let Some(bucket) = &rest.bucket {
                write!(f, " in bucket {bucket:?}")?;
            }
            write!(f, " for another {}: {}", Short(rest.for_), rest.why)?;
        }
        if let Some(fault) = &self.fault {
            let how = if fault.retired {
                "refused"
            } else {
                "suspected"
            };
            write!(
                f,
                "\n  {how} ({}), probed in {}",
                fault.fault.words(),
                Short(fault.probe)
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for QuotaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.left.floor())?;
        if let Some(limit) = self.limit {
            write!(f, " of {limit:.0}")?;
        }
        write!(f, " {} left ({})", self.dimension.words(), self.law)?;
        if let Some(bucket) = &self.bucket {
            write!(f, " in bucket {bucket:?}")?;
        }
        match self.ends {
            Some(ends) => write!(f, ", back in {}", Short(ends)),
            None => Ok(()),
        }
    }
}

fn more(f: &mut fmt::Formatter<'_>, count: usize, what: &str) -> fmt::Result {
    if count == 0 {
        return Ok(());
    }
    write!(f, "\nand {count} more {what}")
}

/// A duration as people say it: milliseconds below a second, tenths below a minute.
pub(in crate::scheduler) struct Short(pub(in crate::scheduler) Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        match seconds {
            _ if seconds < 1.0 => write!(f, "{:.0} ms", seconds * 1e3),
            _ if seconds < 60.0 => write!(f, "{seconds:.1} s"),
            _ => {
                let whole = Duration::from_secs(self.0.as_secs());
                write!(f, "{}", humantime::format_duration(whole))
            }
        }
    }
}
