//! What was measured beside what may be.

use crate::support::Outcome;

/// Rows of figures, some of them with a bound.
#[derive(Default)]
pub(crate) struct Table(Vec<Row>);

struct Row {
    what: String,
    figure: f64,
    bound: Option<f64>,
}

impl Table {
    /// A figure that no bound is named for.
    pub(crate) fn say(&mut self, what: impl Into<String>, figure: f64) {
        self.push(what, figure, None);
    }

    /// A figure that must not exceed `bound`.
    pub(crate) fn at_most(&mut self, what: impl Into<String>, figure: f64, bound: f64) {
        self.push(what, figure, Some(bound));
    }

    fn push(&mut self, what: impl Into<String>, figure: f64, bound: Option<f64>) {
        let what = what.into();
        self.0.push(Row {
            what,
            figure,
            bound,
        });
    }

    /// Prints all rows.
    ///
    /// # Errors
    /// If a bound is exceeded, or a figure is none.
    pub(crate) fn print(&self) -> Outcome<()> {
        println!("{:<58} {:>12} {:>12}", "what", "measured", "at most");
        let mut exceeded = 0;
        for row in &self.0 {
            let (bound, verdict) = match row.bound {
                None => (String::new(), ""),
                Some(bound) if row.figure <= bound => (format!("{bound:.2}"), ""),
                Some(bound) => (format!("{bound:.2}"), "EXCEEDED"),
            };
            exceeded += usize::from(!verdict.is_empty());
            println!(
                "{:<58} {:>12.2} {bound:>12} {verdict}",
                row.what, row.figure
            );
        }
        if exceeded > 0 {
            return Err(format!("{exceeded} bounds are exceeded").into());
        }
        Ok(())
    }
}
