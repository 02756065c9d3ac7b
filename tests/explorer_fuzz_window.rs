//! Random events for a while in the real window, on a virtual display: it neither fails nor keeps growing.
//! `WGATTN_FUZZ_SECONDS` sets how long.
//!
//! Windows belong to the main thread, so this is a program of its own and not a `#[test]`.

mod display;
mod random_events;

use display::Display;
use eframe::egui;
use random_events::{Events, Faults, Memory, PARTS, seconds, tight};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wgattn::explorer::{App, FrameHook, InputHook, Options, run};

/// Where the test runs itself once more, on a display of its own.
const INNER: &str = "WGATTN_EXPLORER_FUZZ_INNER";

/// Things done per frame: a software driver draws few frames, and a user who does more than one thing in each is only more of a
/// test.
const HASTE: usize = 3;

/// MiB that may come between the middle third and the last: the pipelines of settings that were not met before, of which the
/// explorer keeps two dozen for later, and a software driver needs up to 1 MiB for each.
const GROWTH: f64 = 24.0;

fn main() {
    if std::env::args().any(|a| a == "--list") {
        return println!("random_events_break_no_window: test");
    }
    if std::env::var_os(INNER).is_some() {
        return inside();
    }
    let Some(display) = Display::start() else {
        return println!("\ntest result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
    };
    let status = std::env::current_exe().map(|program| {
        let mut command = Command::new(program);
        // Dialogs of the desktop that the tests run on must not open.
        command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent");
        display.lead(tight(&mut command)).env(INNER, "1").status()
    });
    let passed = matches!(&status, Ok(Ok(status)) if status.success());
    assert!(passed, "the window did not stand random events: {status:?}");
    println!("test random_events_break_no_window ... ok");
    println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}

fn inside() {
    let most = Duration::from_secs_f64(seconds() + 45.0);
    std::thread::spawn(move || {
        std::thread::sleep(most);
        eprintln!("no end after {most:?}");
        std::process::abort();
    });
    let memory = Arc::new(Mutex::new(Memory::new(seconds())));
    let (faults, events) = (Faults::default(), Mutex::new(Events::new()));
    let frames = AtomicU64::new(0);
    let watch = {
        let (memory, faults) = (Arc::clone(&memory), faults.clone());
        move |app: &App, ctx: &egui::Context| {
            if app.frames() == 1 {
                faults.listen(app.device());
            }
            faults.look(app);
            let Ok(mut memory) = memory.lock() else { return };
            memory.look(frames.fetch_add(1, Ordering::Relaxed), app.device());
            match memory.is_past(PARTS) {
                true => ctx.send_viewport_cmd(egui::ViewportCommand::Close),
                false => ctx.request_repaint(),
            }
        }
    };
    let disturb = move |input: &mut egui::RawInput| {
        if let Ok(mut events) = events.lock() {
            input.events.extend((0..HASTE).flat_map(|_| events.frame()));
        }
    };
    let options = Options {
        each_frame: Some(FrameHook::new(watch)),
        each_input: Some(InputHook::new(disturb)),
        ..Options::default()
    };
    let is_over = || memory.lock().is_ok_and(|m| m.is_past(PARTS));
    // Random clicks also find the way out: the window opens again.
    while !is_over() {
        run(&options).expect("the window closes by itself");
    }
    faults.assert_none();
    memory.lock().expect("no frame panicked").assert_flat(GROWTH);
}
