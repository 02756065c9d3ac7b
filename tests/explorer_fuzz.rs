//! Random events for a while: nothing panics, the device finds nothing wrong, and memory stays. `WGATTN_FUZZ_SECONDS` sets how
//! long. A process of its own, so that memory is the explorer's.

mod explorer_driver;
mod random_events;

use explorer_driver::{drawn, file, open, settle};
use random_events::{Events, Faults, Memory, SIZE, seconds, tight};
use std::process::Command;
use wgattn::explorer::Options;

/// MiB that may come between the middle third and the last.
const GROWTH: f64 = 24.0;

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
    settle(&mut harness);
    // No dialog may open: whoever asks is answered with a file. Enough of them, so that none need be added later.
    harness.state_mut().answer_dialogs_with(std::iter::repeat_n(file("fuzz-target"), 4096));
    let (mut events, mut memory, mut steps) = (Events::new(), Memory::new(seconds()), 0);
    while !memory.is_over() {
        events.frame().into_iter().for_each(|event| harness.event(event));
        harness.step();
        steps += 1;
        if steps % DRAWN == 0 {
            harness.render().expect("a frame is drawn");
        }
        faults.look(harness.state());
        memory.look(steps, harness.state().device());
    }
    faults.assert_none();
    memory.assert_flat(GROWTH);
}
