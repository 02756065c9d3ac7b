//! Random events for a while: nothing panics, the device finds nothing wrong, and memory stays. `WGATTN_FUZZ_SECONDS` sets how
//! long. A process of its own, so that memory is the explorer's.

mod explorer_driver;
mod random_events;

use egui_kittest::Harness;
use explorer_driver::{drawn, file, open, settle};
use random_events::{Events, Faults, Memory, PARTS, SIZE, seconds, tight};
use std::process::Command;
use std::time::{Duration, Instant};
use wgattn::explorer::panel::form_problem;
use wgattn::explorer::settings::{Road, RowForm, Similarity};
use wgattn::explorer::views::views;
use wgattn::explorer::{App, Options};

/// MiB that may come between the middle third and the last: the pipelines of a few settings that the warm-up did not meet.
const GROWTH: f64 = 12.0;

/// Longest wait for the usual map before memory is looked at.
const REST: Duration = Duration::from_secs(5);

/// Frames of which one is drawn: the harness draws only when told to.
const DRAWN: u64 = 100;

/// Set where the test runs itself once more, with memory that is given back at once.
const INNER: &str = "WGATTN_FUZZ_INNER";

#[test]
fn random_events_break_nothing() {
    if std::env::var_os(INNER).is_some() {
        return inside();
    }
    let program = std::env::current_exe().expect("the test's own path");
    let mut command = Command::new(program);
    let arguments = ["--exact", "random_events_break_nothing", "--nocapture"];
    let status = tight(&mut command).args(arguments).env(INNER, "1").status().expect("it runs itself");
    assert!(status.success(), "{status}");
}

fn inside() {
    let sources = vec![drawn("fuzz.png", 120, 90)];
    let mut harness = open(Options { sources, ..Options::default() }, SIZE);
    let faults = Faults::default();
    faults.listen(harness.state().device());
    warm_up(&mut harness);
    // No dialog may open: whoever asks is answered with a file. Enough of them, so that none need be added later.
    harness.state_mut().answer_dialogs_with(std::iter::repeat_n(file("fuzz-target"), 4096));
    let (mut events, mut memory, mut steps) = (Events::new(), Memory::new(seconds()), 0);
    let usual = harness.state().document().clone();
    for part in 0..=PARTS {
        while !memory.is_past(part) {
            events.frame().into_iter().for_each(|event| harness.event(event));
            harness.step();
            steps += 1;
            if steps % DRAWN == 0 {
                harness.render().expect("a frame is drawn");
            }
            faults.look(harness.state());
        }
        // Memory of the same settings, whatever was done in between.
        *harness.state_mut().document_mut() = usual.clone();
        let since = Instant::now();
        // A moving source, should one have been found, never rests.
        while since.elapsed() < REST && !harness.state().is_settled() {
            harness.step();
            std::thread::sleep(Duration::from_millis(4));
        }
        memory.look(steps, harness.state().device());
    }
    faults.assert_none();
    memory.assert_flat(GROWTH);
}

/// Meets all views and kinds of rows once: pipelines and room for maps with all pairs of tokens come before memory is looked at.
fn warm_up(harness: &mut Harness<'_, App>) {
    for view in views() {
        harness.state_mut().open_view(view.id());
        settle(harness);
    }
    let forms = [RowForm::None, RowForm::Sum, RowForm::Row, RowForm::Col, RowForm::Cheap, RowForm::Softpp];
    for similarity in [Similarity::Gaussian, Similarity::Softmax, Similarity::Laplacian] {
        for (road, form) in [Road::Exact, Road::Nystrom].into_iter().flat_map(|r| forms.map(|f| (r, f))) {
            let compute = &mut harness.state_mut().document_mut().settings.compute;
            (compute.similarity, compute.road, compute.form) = (similarity, road, form);
            if form_problem(compute, form).is_some() {
                compute.form = RowForm::None;
            }
            settle(harness);
        }
    }
}
