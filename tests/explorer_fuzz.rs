//! Random events for a while: nothing panics and memory stays. `WGATTN_FUZZ_SECONDS` sets how long. A process of its own, so that
//! memory is the explorer's.

mod explorer_driver;

use eframe::egui::{self, Key, Modifiers, PointerButton, pos2, vec2};
use explorer_driver::{click, drawn, explorer, file};
use std::time::{Duration, Instant};

#[test]
fn random_events_break_nothing() {
    let seconds = std::env::var("WGATTN_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(15);
    let mut harness = explorer(&[&drawn("fuzz.png", 120, 90)]);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let keys = [
        Key::F,
        Key::M,
        Key::N,
        Key::R,
        Key::G,
        Key::L,
        Key::B,
        Key::I,
        Key::Tab,
        Key::Space,
        Key::Comma,
        Key::Period,
        Key::Num1,
        Key::Num4,
        Key::Num9,
        Key::Plus,
        Key::Minus,
        Key::Questionmark,
        Key::F1,
        Key::Escape,
        Key::Enter,
        Key::ArrowUp,
        Key::ArrowDown,
        Key::PageUp,
        Key::OpenBracket,
        Key::CloseBracket,
        Key::Delete,
    ];
    let start = Instant::now();
    let mut early = None;
    let mut steps = 0_u64;
    while start.elapsed() < Duration::from_secs(seconds) {
        let at = pos2(random(1300) as f32 - 10.0, random(820) as f32 - 10.0);
        let press = |pressed, button| egui::Event::PointerButton {
            pos: at,
            button,
            pressed,
            modifiers: Modifiers::NONE,
        };
        match random(10) {
            0..=3 => harness.event(egui::Event::PointerMoved(at)),
            4 => harness.event(press(true, PointerButton::Primary)),
            5 => harness.event(press(false, PointerButton::Primary)),
            6 => click(
                &mut harness,
                at,
                if random(6) == 0 { PointerButton::Secondary } else { PointerButton::Primary },
            ),
            7 => harness.event(egui::Event::MouseWheel {
                unit: egui::MouseWheelUnit::Point,
                delta: vec2(0.0, random(400) as f32 - 200.0),
                phase: egui::TouchPhase::Move,
                source: egui::MouseWheelSource::Wheel,
                modifiers: if random(4) == 0 { Modifiers::COMMAND } else { Modifiers::NONE },
            }),
            8 => harness.key_press(keys[random(keys.len() as u64) as usize]),
            _ => harness.key_press_modifiers(
                Modifiers::COMMAND,
                [Key::Z, Key::Y, Key::Num0, Key::B][random(4) as usize],
            ),
        }
        harness.step();
        // Files and dialogs are for other tests: none may open here.
        harness.state_mut().answer_dialogs_with([file("fuzz-target")]);
        steps += 1;
        if early.is_none() && start.elapsed() > Duration::from_secs(seconds / 3) {
            early = resident_bytes();
        }
    }
    if let (Some(early), Some(late)) = (early, resident_bytes()) {
        println!("{steps} steps; resident memory {} MiB, then {} MiB", early >> 20, late >> 20);
        assert!(late < early + (200 << 20), "memory grew from {early} to {late} bytes");
    }
}

fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages * 4096)
}
