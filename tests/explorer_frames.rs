//! How soon the real window answers on this machine, printed; no time is asserted. A pointer of the display's own moves over
//! the picture, drags it and drags the slider of λ; each time is from that input until other pixels are on the screen.
//!
//! Windows belong to the main thread, so this is a program of its own and not a `#[test]`.

#[cfg(target_os = "linux")]
mod display;

#[cfg(target_os = "linux")]
mod pointer {
    //! A hand and an eye on the display that DISPLAY names.

    use std::time::{Duration, Instant};
    use x11rb::connection::Connection as _;
    use x11rb::protocol::xproto::{
        BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, ConnectionExt as _, ImageFormat, MOTION_NOTIFY_EVENT,
        Window,
    };
    use x11rb::protocol::xtest::ConnectionExt as _;
    use x11rb::rust_connection::RustConnection;

    /// Left, top, width and height in pixels.
    pub(super) type Part = (i16, i16, u16, u16);

    /// How long something is waited for.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// The pointer, and the screen it is on.
    pub(super) struct Pointer {
        server: RustConnection,
        root: Window,
    }

    impl Pointer {
        pub(super) fn new() -> Self {
            let (server, screen) = x11rb::connect(None).expect("the display answers");
            let root = server.setup().roots[screen].root;
            Self { server, root }
        }

        fn input(&self, kind: u8, detail: u8, (x, y): (f32, f32)) {
            let (x, y) = (x.round() as i16, y.round() as i16);
            let sent = self.server.xtest_fake_input(kind, detail, 0, self.root, x, y, 0);
            sent.and_then(|_| self.server.flush()).expect("the display takes input");
        }

        pub(super) fn move_to(&self, at: (f32, f32)) {
            self.input(MOTION_NOTIFY_EVENT, 0, at);
        }

        pub(super) fn press(&self) {
            self.input(BUTTON_PRESS_EVENT, 1, (0.0, 0.0));
        }

        pub(super) fn release(&self) {
            self.input(BUTTON_RELEASE_EVENT, 1, (0.0, 0.0));
        }

        /// What a part of the screen shows.
        pub(super) fn see(&self, (x, y, width, height): Part) -> Vec<u8> {
            let asked =
                self.server.get_image(ImageFormat::Z_PIXMAP, self.root, x, y, width, height, u32::MAX);
            asked.expect("the display is there").reply().expect("a part of the screen").data
        }

        /// Milliseconds from moving the pointer until a part of the screen shows something else.
        pub(super) fn time_to_change(&self, to: (f32, f32), part: Part) -> f64 {
            let before = self.see(part);
            let start = Instant::now();
            self.move_to(to);
            while self.see(part) == before {
                assert!(start.elapsed() < PATIENCE, "nothing changed in {part:?} with the pointer at {to:?}");
                std::thread::sleep(Duration::from_micros(500));
            }
            start.elapsed().as_secs_f64() * 1e3
        }
    }
}

#[cfg(target_os = "linux")]
mod window {
    //! The window, and what is done in it.

    use super::display::Display;
    use super::pointer::{Part, Pointer};
    use eframe::egui::{self, accesskit};
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};
    use wgattn::explorer::document::Document;
    use wgattn::explorer::{App, FrameHook, Options, run};

    /// Where the test runs itself once more, on a display of its own.
    const INNER: &str = "WGATTN_EXPLORER_FRAMES_INNER";

    /// Inputs of each kind that are timed.
    const STEPS: usize = 100;

    pub(super) fn main() {
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

    /// What the window tells the hand.
    #[derive(Default)]
    struct Told {
        settled: AtomicBool,
        frames: AtomicU64,
        /// Ends of the slider of λ, and its height.
        slider: Mutex<Option<(f32, f32, f32)>>,
        ctx: Mutex<Option<egui::Context>>,
    }

    /// Finds the slider as a screen reader does.
    struct Finder(Arc<Told>);

    impl egui::Plugin for Finder {
        fn debug_name(&self) -> &'static str {
            "finder of the slider"
        }

        fn output_hook(&mut self, ctx: &egui::Context, output: &mut egui::FullOutput) {
            let Some(tree) = output.platform_output.accesskit_update.take() else { return };
            let sliders = tree.nodes.iter().filter(|(_, node)| node.role() == accesskit::Role::Slider);
            let of_lambda = |node: &&accesskit::Node| {
                let labels = node.labelled_by().iter();
                let texts = labels.filter_map(|id| tree.nodes.iter().find(|(other, _)| other == id));
                let named = |node: &accesskit::Node| node.label() == Some("λ") || node.value() == Some("λ");
                named(node) || texts.into_iter().any(|(_, text)| named(text))
            };
            let rect = sliders.map(|(_, node)| node).find(of_lambda).and_then(|node| node.bounds());
            if let (Some(rect), Ok(mut slider)) = (rect, self.0.slider.lock()) {
                *slider = Some((rect.x0 as f32, rect.x1 as f32, (0.5 * (rect.y0 + rect.y1)) as f32));
                // Nobody reads it any more, and it takes time in every frame.
                ctx.disable_accesskit();
            }
        }
    }

    fn inside() {
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(100));
            eprintln!("no end after 100 s");
            std::process::abort();
        });
        let told: Arc<Told> = Arc::default();
        let theirs = Arc::clone(&told);
        let hook = move |app: &App, ctx: &egui::Context| {
            if theirs.frames.fetch_add(1, Ordering::AcqRel) == 0 {
                ctx.enable_accesskit();
                ctx.add_plugin(Finder(Arc::clone(&theirs)));
                if let Ok(mut kept) = theirs.ctx.lock() {
                    *kept = Some(ctx.clone());
                }
            }
            theirs.settled.store(app.is_settled() && app.snapshot().is_some(), Ordering::Release);
        };
        let mut document = Document::default();
        document.settings.compute.lambda = Some(4.0);
        let options = Options {
            sources: vec![square()],
            document: Some(document),
            each_frame: Some(FrameHook::new(hook)),
            ..Options::default()
        };
        let hand = std::thread::spawn(move || use_it(&told));
        run(&options).expect("the window closes by itself");
        hand.join().expect("everything answered");
    }

    /// Waits until the map is on screen and nothing is under way.
    fn rest(told: &Told) {
        let frames = || told.frames.load(Ordering::Acquire);
        let mut before = frames();
        let mut since = Instant::now();
        while since.elapsed() < Duration::from_millis(400) || !told.settled.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(5));
            if frames() != before {
                (before, since) = (frames(), Instant::now());
            }
        }
    }

    fn use_it(told: &Told) {
        let pointer = Pointer::new();
        rest(told);
        // Over the picture, which lies right of the panel: 304 … 1280 across.
        let (x, y) = (700.0, 380.0);
        pointer.move_to((x, y));
        rest(told);
        let frames = || told.frames.load(Ordering::Acquire);
        let before = frames();
        std::thread::sleep(Duration::from_secs(1));
        println!("frames in a second without input: {}", frames() - before);

        // The numbers of the token under the pointer stand at the lower right.
        let numbers: Part = (1040, 620, 220, 120);
        let spot = |i: usize| (x + ((i * 37) % 200) as f32, y + ((i * 23) % 150) as f32);
        tell("hover", told, || (1..=STEPS).map(|i| pointer.time_to_change(spot(i), numbers)).collect());

        pointer.move_to((x, y));
        rest(told);
        pointer.press();
        rest(told);
        // Only what moves far enough is a drag and no click.
        pointer.move_to((x + 20.0, y));
        rest(told);
        // The picture's lower part, which reaches the screen last.
        let picture: Part = (600, 660, 300, 1);
        let spot = |i: usize| (x + 60.0 * (i as f32 / 7.0).sin() + 3.0 * (i % 2) as f32, y + (i % 23) as f32);
        tell("pan", told, || (1..=STEPS).map(|i| pointer.time_to_change(spot(i), picture)).collect());
        pointer.release();
        rest(told);

        let slider = told.slider.lock().ok().and_then(|s| *s);
        let (left, right, height) = slider.expect("a slider of λ in the panel");
        let along =
            |i: usize| (left + (right - left) * (0.2 + 0.6 * ((i * 37 % 101) as f32 / 101.0)), height);
        pointer.move_to(along(0));
        pointer.press();
        rest(told);
        let picture: Part = (600, 560, 300, 1);
        tell("λ to map", told, || (1..=STEPS).map(|i| pointer.time_to_change(along(i), picture)).collect());
        pointer.release();
        rest(told);
        if let Some(ctx) = told.ctx.lock().ok().and_then(|c| c.clone()) {
            ctx.send_viewport_cmd_to(egui::ViewportId::ROOT, egui::ViewportCommand::Close);
            ctx.request_repaint();
        }
    }

    fn tell(what: &str, told: &Told, times: impl FnOnce() -> Vec<f64>) {
        let (frames, start) = (told.frames.load(Ordering::Acquire), Instant::now());
        let mut times = times();
        let (seconds, frames) = (start.elapsed().as_secs_f64(), told.frames.load(Ordering::Acquire) - frames);
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times.get(((times.len().max(1) - 1) as f64 * share) as usize).copied();
        let [median, most] = [0.5, 0.95].map(|share| at(share).unwrap_or(f64::NAN));
        println!(
            "{what}, from input to screen at 1280 × 800: median {median:.1} ms, 95th percentile {most:.1} ms \
             ({frames} frames in {seconds:.1} s)"
        );
    }
}

#[cfg(target_os = "linux")]
fn main() {
    window::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
}
