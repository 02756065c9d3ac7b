//! The line at the foot of the view: which way attention of all tokens goes under the mask, and what its noise guard says.

use super::super::plots;
use crate::explorer::panel::form_problem;
use crate::explorer::snapshot::{Guard, MaskWay};
use crate::explorer::views::ViewContext;
use crate::kernels::mask::path::Path;
use crate::numbers::{grouped, percent, seconds};
use eframe::egui::{self, Ui};

/// A fact: its name, what it is, and what that means.
type Fact = (&'static str, String, String);

/// Draws the facts in a line.
pub(super) fn line(ui: &mut Ui, context: &ViewContext<'_>, measure: bool) {
    match found(context, measure) {
        Err(words) => {
            ui.add(egui::Label::new(egui::RichText::new(words).weak()).wrap());
        }
        Ok(facts) => plots::figures(ui, |ui| {
            for (name, value, meaning) in facts {
                plots::figure(ui, name, value).on_hover_text(meaning);
            }
        }),
    }
}

/// Draws the facts below each other, with what they mean.
pub(super) fn page(ui: &mut Ui, context: &ViewContext<'_>, measure: bool) {
    match found(context, measure) {
        Err(words) => {
            ui.add(egui::Label::new(words).wrap());
        }
        Ok(facts) => {
            for (name, value, meaning) in facts {
                ui.horizontal_wrapped(|ui| {
                    ui.weak(format!("{name}:"));
                    ui.strong(value);
                });
                ui.add(egui::Label::new(plots::caption(meaning)).wrap());
                ui.add_space(6.0);
            }
        }
    }
}

/// What there is to tell, or why there is nothing.
fn found(context: &ViewContext<'_>, measure: bool) -> Result<Vec<Fact>, String> {
    let compute = &context.settings.compute;
    if let Some(problem) = form_problem(compute, compute.form) {
        return Err(problem.into());
    }
    let known = context.snapshot.filter(|s| s.compute.mask == compute.mask);
    let Some((snapshot, way)) = known.and_then(|s| Some((s, s.mask_way.as_ref()?))) else {
        return Err("Working out which way attention goes…".into());
    };
    let MaskWay::Table { plan, crossover, features, columns } = way else {
        return Err(match way {
            MaskWay::NoFeatures => format!(
                "The row of the {} kernel is weighed entry by entry. Attention of all tokens in N log N needs a feature map: \
                 choose ELU+1, ReLU, exp or FAVOR+ in the panel.",
                snapshot.compute.similarity.name()
            ),
            MaskWay::Reference => "The f64 reference goes pair by pair, whatever that takes.".into(),
            _ => "Attention of all tokens goes by scans, in linear time: there is no transform, and nothing to guard \
                  against."
                .into(),
        });
    };
    let chosen = if plan.chosen == Path::Fourier { "Fourier transforms" } else { "pair by pair" };
    let estimate = format!(
        "Estimated for {features} features and {columns} value columns, from what work was measured to cost on this kind of \
         device."
    );
    let cost = |ms: f64| format!("about {}", seconds(1e-3 * ms));
    let from = match crossover {
        Some(tokens) => format!("{} tokens", grouped(*tokens as f64)),
        None => "never under this mask".into(),
    };
    // Where the query sees nothing, nothing is run.
    let (value, meaning) = told(snapshot.guard.as_deref(), measure && !snapshot.sees_nothing());
    let cheaper = "The cheaper of two ways, by the estimates beside it.".to_string();
    Ok(vec![
        ("Attention of all tokens", chosen.into(), cheaper),
        ("Pair by pair, per head", cost(plan.pairs_ms), estimate.clone()),
        ("Fourier, per head", cost(plan.fourier_ms), estimate),
        ("Fourier pays from", from, "On square grids of tokens, by the same estimate.".into()),
        ("Noise guard", value, meaning),
    ])
}

/// What the guard says, in short and in full.
fn told(guard: Option<&Guard>, measure: bool) -> (String, String) {
    let what = "Rows whose sum is so small that the rounding noise of transforms could spoil it: they are computed again, \
                pair by pair.";
    match (guard, measure) {
        (Some(Guard::Measured { rows: 0, .. }), _) => ("nothing was transformed".into(), what.into()),
        (Some(Guard::Measured { flagged, rows, forced }), _) => {
            let share = percent(*flagged as f64 / *rows as f64);
            let counts =
                format!("{} of {} rows of all heads", grouped(*flagged as f64), grouped(*rows as f64));
            let how = if *forced { " Run by Fourier transforms, though pairs are cheaper here." } else { "" };
            let short =
                if *flagged == 0 { "flags no row".into() } else { format!("flags {share} of the rows") };
            (short, format!("{counts}. {what}{how}"))
        }
        (Some(Guard::NotMeasured(why)), _) => (format!("not measured: {why}"), what.into()),
        (None, true) => ("measuring…".into(), what.into()),
        (None, false) => ("not measured".into(), what.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_says_what_was_measured_and_what_was_not() {
        let measured = Guard::Measured { flagged: 3, rows: 1200, forced: true };
        let (short, long) = told(Some(&measured), true);
        assert_eq!(short, "flags 0.25 % of the rows");
        assert!(long.starts_with("3 of 1") && long.contains("pairs are cheaper"), "{long}");
        let why = Guard::NotMeasured("it is too much".into());
        assert_eq!(told(Some(&why), true).0, "not measured: it is too much");
        assert_eq!(told(None, false).0, "not measured");
        assert_eq!(told(None, true).0, "measuring…");
        let none = Guard::Measured { flagged: 0, rows: 0, forced: false };
        assert!(!told(Some(&none), true).0.contains("NaN"));
    }
}
