//! Case C10: the window can be used soon after the program starts, the first map comes soon after it, and a second start,
//! which finds the driver's compiled shaders, is no slower.
//!
//! Windows belong to the main thread, so this is a program of its own and not a `#[test]`.

mod display;

use display::Display;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wgattn::explorer::{FrameHook, Options, run};

/// Where the test runs itself once more, on a display of its own.
const INNER: &str = "WGATTN_EXPLORER_START_INNER";

/// Goals in seconds for the first frame and the first map, with a software driver and a machine to itself.
const GOALS: [f64; 2] = [1.0, 5.0];

/// What a machine that others use too, and a build for development, may take of that.
const PATIENCE: f64 = 5.0;

fn main() {
    if std::env::args().any(|a| a == "--list") {
        return println!("the_window_and_its_map_come_soon: test");
    }
    if std::env::var_os(INNER).is_some() {
        return inside(Instant::now());
    }
    let Some(display) = Display::start() else {
        return println!("\ntest result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
    };
    let shaders = std::env::temp_dir().join(format!("wgattn-start-{}", std::process::id()));
    std::fs::create_dir_all(&shaders).expect("a folder for compiled shaders");
    let [cold, warm] = ["the first start", "the second"].map(|name| {
        let [frame, map] = start(&display, &shaders);
        println!("{name}: the window after {frame:.2} s, its map after {map:.2} s");
        assert!(frame < PATIENCE * GOALS[0] && map < PATIENCE * GOALS[1], "{name} is slow");
        map
    });
    // What is measured twice is never quite the same.
    assert!(warm < 1.5 * cold + 1.0, "the second start took {warm:.2} s, the first one {cold:.2} s");
    println!("test the_window_and_its_map_come_soon ... ok");
    println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}

/// Seconds to the first frame and to the first map of a new process.
fn start(display: &Display, shaders: &Path) -> [f64; 2] {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    display.lead(&mut command).env(INNER, "1").env("MESA_SHADER_CACHE_DIR", shaders);
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let times: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    times.try_into().unwrap_or_else(|_| panic!("expected two times, got {text}"))
}

fn inside(start: Instant) {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(60));
        eprintln!("no map after a minute");
        std::process::abort();
    });
    let times: Arc<Mutex<Vec<f64>>> = Arc::default();
    let theirs = Arc::clone(&times);
    let hook = move |app: &wgattn::explorer::App, ctx: &eframe::egui::Context| {
        let Ok(mut times) = theirs.lock() else { return };
        let has_map = app.is_settled() && app.snapshot().is_some();
        if times.is_empty() || (has_map && times.len() == 1) {
            times.push(start.elapsed().as_secs_f64());
        }
        if has_map {
            ctx.send_viewport_cmd(eframe::egui::ViewportCommand::Close);
        } else {
            ctx.request_repaint_after(Duration::from_millis(20));
        }
    };
    let options = Options { each_frame: Some(FrameHook::new(hook)), ..Options::default() };
    run(&options).expect("the window closes by itself");
    for time in times.lock().map(|t| t.clone()).unwrap_or_default() {
        println!("{time}");
    }
}
