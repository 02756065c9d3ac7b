//! How long a frame of the real window takes on this machine, printed; nothing is asserted about it.
//!
//! Windows belong to the main thread, so this is a program of its own and not a `#[test]`.

mod display;

use display::Display;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wgattn::explorer::{FrameHook, Options, run};

/// Where the test runs itself once more, on a display of its own.
const INNER: &str = "WGATTN_EXPLORER_FRAMES_INNER";

/// Frames that are timed.
const FRAMES: usize = 60;

fn main() {
    if std::env::args().any(|a| a == "--list") {
        return println!("frames_of_the_window: test");
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
    assert!(passed, "the window did not draw its frames: {status:?}");
    println!("test frames_of_the_window ... ok");
    println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}

/// A picture of 512 × 512 pixels: 4096 tokens.
fn square() -> String {
    let path = std::env::temp_dir().join(format!("wgattn-frames-{}.png", std::process::id()));
    let pixel = |x: u32, y: u32| image::Rgb([(x / 2) as u8, (y / 2) as u8, ((x ^ y) & 255) as u8]);
    image::RgbImage::from_fn(512, 512, pixel).save(&path).expect("the picture is written");
    path.display().to_string()
}

fn inside() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(60));
        eprintln!("no end after a minute");
        std::process::abort();
    });
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let theirs = Arc::clone(&times);
    let hook = move |app: &wgattn::explorer::App, ctx: &eframe::egui::Context| {
        ctx.request_repaint();
        let Ok(mut times) = theirs.lock() else { return };
        if app.is_settled() && app.snapshot().is_some() {
            times.push(Instant::now());
        }
        if times.len() == FRAMES {
            ctx.send_viewport_cmd(eframe::egui::ViewportCommand::Close);
        }
    };
    let sources = vec![square()];
    let options = Options { sources, each_frame: Some(FrameHook::new(hook)), ..Options::default() };
    run(&options).expect("the window closes by itself");
    let times = times.lock().map(|t| t.clone()).unwrap_or_default();
    assert!(times.len() >= FRAMES, "{} frames", times.len());
    let mut spent: Vec<f64> = times.windows(2).map(|t| (t[1] - t[0]).as_secs_f64() * 1e3).collect();
    spent.sort_by(f64::total_cmp);
    let at = |share: f64| spent[((spent.len() - 1) as f64 * share) as usize];
    println!(
        "a frame of the window at 1280 × 800: median {:.1} ms, 95th percentile {:.1} ms",
        at(0.5),
        at(0.95)
    );
}
