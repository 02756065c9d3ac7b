//! Work that takes long on a slow device: it is told how long, gives way to a newer request, and keeps no window open.

mod explorer_driver;

use eframe::egui::{PointerButton, pos2};
use explorer_driver::{click, drawn, explorer};
use std::time::{Duration, Instant};

/// More than a software driver does in a minute: 900 landmarks, and as many steps of the inverse as there can be.
fn heavy() -> egui_kittest::Harness<'static, wgattn::explorer::App> {
    let mut harness = explorer(&[&drawn("heavy.png", 640, 480)]);
    assert!(harness.state_mut().open_view("convergence"));
    let compute = &mut harness.state_mut().document_mut().settings.compute;
    (compute.landmark_side, compute.lambda, compute.epsilon) = (30, Some(1e6), 1e-30);
    harness
}

#[test]
fn frames_go_on_and_a_closed_window_does_not_wait() {
    let mut harness = heavy();
    let (begun, mut longest) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < Duration::from_secs(6) && !harness.state().is_settled() {
        let frame = Instant::now();
        harness.step();
        harness.render().expect("a picture");
        longest = longest.max(frame.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    let closing = Instant::now();
    drop(harness);
    let closed = closing.elapsed();
    eprintln!("longest frame {longest:?}, closed in {closed:?}");
    assert!(longest < Duration::from_secs(2), "the longest frame took {longest:?}");
    assert!(closed < Duration::from_secs(2), "closing took {closed:?}");
}

#[test]
fn a_click_during_long_work_is_answered_first() {
    let mut harness = heavy();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        harness.step();
    }
    // Twice, for the second request would be finished in any case if it were quick.
    for at in [pos2(700.0, 400.0), pos2(760.0, 380.0)] {
        click(&mut harness, at, PointerButton::Primary);
        let until = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < until {
            harness.step();
        }
    }
    let compute = &mut harness.state_mut().document_mut().settings.compute;
    (compute.landmark_side, compute.lambda, compute.epsilon) = (7, None, 1e-3);
    let asked = Instant::now();
    explorer_driver::settle(&mut harness);
    let answered = asked.elapsed();
    eprintln!("answered in {answered:?}");
    assert_eq!(harness.state().snapshot().map(|s| s.landmarks), Some(49));
    assert!(answered < Duration::from_secs(10), "{answered:?}");
}
