//! A device that is lost under the window: it opens again with the same picture, settings and place.
//!
//! Windows belong to the main thread, so this is a program of its own and not a `#[test]`.

mod display;

use display::Display;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wgattn::explorer::document::Document;
use wgattn::explorer::{FrameHook, Options, run};

/// Where the test runs itself once more, on a display of its own.
const INNER: &str = "WGATTN_EXPLORER_LOST_INNER";

fn main() {
    // cargo lists and filters tests of every program.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        return println!("a_lost_device_opens_the_window_again: test");
    }
    if std::env::var_os(INNER).is_some() {
        return inside();
    }
    let Some(display) = Display::start() else {
        return println!("\ntest result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
    };
    let status = std::env::current_exe().map(|program| {
        let mut command = Command::new(program);
        display.lead(&mut command).env(INNER, "1").status()
    });
    let passed = matches!(&status, Ok(Ok(status)) if status.success());
    assert!(passed, "the window did not come back: {status:?}");
    println!("test a_lost_device_opens_the_window_again ... ok");
    println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}

fn inside() {
    let lives = Arc::new(AtomicUsize::new(0));
    let found: Arc<Mutex<Vec<Document>>> = Arc::default();
    let hook = {
        let (lives, found) = (Arc::clone(&lives), Arc::clone(&found));
        move |app: &wgattn::explorer::App, ctx: &eframe::egui::Context| {
            // Every window counts its frames from 1.
            if app.frames() == 1 {
                lives.fetch_add(1, Ordering::Relaxed);
            }
            if !app.is_settled() || app.snapshot().is_none() {
                return ctx.request_repaint_after(Duration::from_millis(50));
            }
            if let Ok(mut found) = found.lock()
                && found.len() < lives.load(Ordering::Relaxed)
            {
                found.push(app.document().clone());
            }
            if lives.load(Ordering::Relaxed) == 1 {
                // Between two frames, as a driver would.
                let (device, waking) = (app.device().clone(), ctx.clone());
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(300));
                    device.destroy();
                    waking.request_repaint();
                });
            } else {
                ctx.send_viewport_cmd(eframe::egui::ViewportCommand::Close);
            }
        }
    };
    let mut document = Document { query: [33, 44], ..Document::default() };
    document.settings.compute.landmark_side = 5;
    let options = Options {
        document: Some(document.clone()),
        each_frame: Some(FrameHook::new(hook)),
        ..Options::default()
    };
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(25));
        eprintln!("no end after a minute");
        std::process::abort();
    });
    run(&options).expect("the window closes by itself");
    let found = found.lock().map(|f| f.clone()).unwrap_or_default();
    assert_eq!(lives.load(Ordering::Relaxed), 2, "one device and the one after it");
    assert_eq!(found, [document.clone(), document], "the same settings and place, twice");
}
