//! The views that plot numbers, drawn from a snapshot made by hand: nothing panics, every letter has a glyph, and what
//! the numbers say stands there in words. `WGATTN_KEEP_IMAGES=folder` keeps the pictures for looking at them.

use eframe::egui::{self, Theme, Vec2, vec2};
use eframe::egui_wgpu::{RenderState, RendererOptions};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use egui_kittest::wgpu::{WgpuTestRenderer, create_render_state, default_wgpu_setup};
use egui_kittest::{Harness, Node};
use glam::UVec2;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wgattn::backend::cpu::CpuBackend;
use wgattn::backend::{DeviceInfo, DeviceKind, Memory, StepTime, TimingSource, Timings};
use wgattn::explorer::analysis::{distances, trace};
use wgattn::explorer::canvas::Canvas;
use wgattn::explorer::fonts;
use wgattn::explorer::mask::MaskDocument;
use wgattn::explorer::networks::Cuts;
use wgattn::explorer::settings::{RowForm, Settings, Similarity};
use wgattn::explorer::snapshot::{Inverse, Layer, LayerId, Parity, Row, Snapshot};
use wgattn::explorer::textures::Textures;
use wgattn::explorer::views::{View, ViewContext, views};
use wgattn::graph::{Lowering, Schedule};
use wgattn::kernel::{Caps, Driver};
use wgattn::tensor::{HostData, HostTensor};
use wgattn::vision::bandwidth::{Metric, default_lambda};
use wgattn::vision::features::{FeatureBasis, FeatureOptions};
use wgattn::vision::grid::TokenGrid;
use wgattn::vision::image::Photo;
use wgattn::vision::palette::Palette;
use wgattn::vision::scene::Scene;

const HEADS: usize = 4;
const HEAD_DIM: usize = 32;
const EPSILON: f64 = 1e-3;

fn photo() -> Photo {
    Photo::open(format!("{}/assets/chelsea.png", env!("CARGO_MANIFEST_DIR"))).expect("the asset opens")
}

/// Everything that does not depend on a device, made once for all tests.
struct Made {
    grid: TokenGrid,
    lambda: Vec<f32>,
    traces: Vec<wgattn::explorer::snapshot::Trace>,
    distances: Vec<wgattn::explorer::snapshot::Distances>,
    schedule: Arc<Schedule>,
    /// One with as many passes and tensors as there are.
    large: Arc<Schedule>,
}

fn made() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| {
        let photo = photo();
        let grid = TokenGrid::plan(photo.size(), 8, 8, 16_384).expect("a grid");
        let image = photo.working(grid.working_size()).expect("the working picture");
        let fit = FeatureOptions { heads: HEADS, head_dim: HEAD_DIM, ..FeatureOptions::default() };
        let basis = FeatureBasis::fit(&image, &grid, &fit).expect("a basis");
        let every = grid.tokens() / 400;
        let tokens: Vec<usize> = (0..400).map(|i| i * every).collect();
        let sample = basis.project_tokens(&image, &grid, &tokens).expect("features");
        let shape = [HEADS, tokens.len(), HEAD_DIM];
        let lambda = default_lambda(&sample, shape, Metric::L1, 0.1).expect("bandwidths");
        let lambda: Vec<f32> = lambda.into_iter().map(|x| x as f32).collect();
        let distances = distances(&sample, shape, Metric::L1, &lambda, 40_000).expect("distances");

        // Every eighth sampled token as a landmark.
        let m = 49;
        let mut a = Vec::new();
        for (head, lambda) in lambda.iter().enumerate() {
            let of = |landmark: usize| {
                let at = (head * tokens.len() + 8 * landmark) * HEAD_DIM;
                &sample[at..at + HEAD_DIM]
            };
            for i in 0..m {
                for j in 0..m {
                    let distance = Metric::L1.distance(of(i), of(j));
                    let kernel = (-distance / f64::from(*lambda)).exp();
                    a.push(kernel + if i == j { EPSILON } else { 0.0 });
                }
            }
        }
        let a = HostTensor::new([1, HEADS as u32, m as u32, m as u32], HostData::F64(a)).expect("matrices");
        let traces = trace(&CpuBackend, &a, EPSILON).expect("a trace");

        let caps = |driver: Driver| Caps {
            driver,
            workgroup_bytes: 32 << 10,
            invocations: 256,
            storage_binding: 1 << 30,
            buffer: 1 << 30,
            storage_buffers: 8,
            texture_rows: 8192,
            storage_alignment: 256,
            groups: 65_535,
            loop_rounds: u64::MAX,
            subgroup_lanes: 0,
            memory_budget: 1 << 30,
        };
        let scheduled = |settings: &Settings, driver: Driver| {
            let options = settings.compute.scene().expect("settings that are a scene");
            let scene = Scene::new(&photo, &options, 1).expect("a scene");
            let caps = caps(driver);
            Arc::new(scene.graph().schedule(Lowering::Device(&caps)).expect("a schedule"))
        };
        let schedule = scheduled(&Settings::default(), Driver::Gpu);
        // On a software driver the inverse of many landmarks is a long row of products.
        let mut settings = Settings::default();
        settings.compute.landmark_side = 16;
        settings.compute.form = RowForm::Row;
        let large = scheduled(&settings, Driver::Llvmpipe);
        Made { grid, lambda, traces, distances, schedule, large }
    })
}

/// Times that differ from pass to pass.
fn times(schedule: &Schedule) -> Vec<StepTime> {
    let time = |(index, step): (usize, &wgattn::graph::Step)| StepTime {
        kernel: step.kernel.name,
        variant: if index % 3 == 0 { "tile64" } else { "plain" },
        seconds: 2e-5 * (1.0 + ((index * 7919) % 23) as f64) * if index % 5 == 0 { 6.0 } else { 1.0 },
        cpu_seconds: None,
        by_host: false,
        by_token: true,
    };
    schedule.steps.iter().enumerate().map(time).collect()
}

fn snapshot(state: &RenderState) -> Snapshot {
    let made = made();
    let tokens = made.grid.tokens();
    let wave = |token: usize| {
        let (row, col) = (token / made.grid.cols(), token % made.grid.cols());
        3e-7 * ((row as f32 * 0.31).sin() * (col as f32 * 0.23).cos())
    };
    let worst = tokens / 3;
    let mut difference: Vec<f32> = (0..tokens).map(wave).collect();
    difference[worst] = 9e-7;
    let inverse =
        |head: usize| Inverse { residual: 2.1e-6 * (head + 1) as f32, row_sum: 9.0, steps: 8, code: 0 };
    Snapshot {
        request: 1,
        compute: Settings::default().compute,
        look: Settings::default().look,
        query: UVec2::new(184, 168),
        query_token: made.grid.token_at(UVec2::new(184, 168)).expect("a token"),
        grid: made.grid.clone(),
        device: DeviceInfo {
            name: "llvmpipe".into(),
            backend: "vulkan".into(),
            kind: DeviceKind::Software,
            driver: "Mesa".into(),
        },
        on_window_device: true,
        lambda: made.lambda.clone(),
        landmarks: 49,
        landmark_cells: Vec::new(),
        exact: false,
        row: Row::default(),
        exact_row: None,
        relative_error: None,
        no_exact: None,
        inverse: (0..HEADS).map(inverse).collect(),
        trace: Some(Arc::new(made.traces.clone())),
        distances: Some(Arc::new(made.distances.clone())),
        parity: Some(Arc::new(Parity {
            relative: 3.2e-7,
            worst: 9e-7,
            at: (worst, 2),
            difference: vec![difference.clone(); HEADS],
            seconds: 1.37,
        })),
        no_parity: None,
        unmasked_row: None,
        mask_weights: None,
        mask_way: None,
        guard: None,
        diffusion: None,
        hidden_keys: None,
        sinks: Vec::new(),
        schedules: vec![made.schedule.clone()],
        timings: Timings {
            source: TimingSource::Timestamp,
            steps: times(&made.schedule),
            wall_seconds: 0.031,
            cpu_seconds: 0.05,
        },
        latency: Duration::from_millis(40),
        memory: Memory::default(),
        notices: Vec::new(),
        layers: vec![layer(state, &difference, &made.grid)],
    }
}

fn layer(state: &RenderState, values: &[f32], grid: &TokenGrid) -> Layer {
    let end = values.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
    let size =
        wgpu::Extent3d { width: grid.cols() as u32, height: grid.rows() as u32, depth_or_array_layers: 1 };
    let texture = state.device.create_texture(&wgpu::TextureDescriptor {
        label: Some("difference"),
        size,
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba8Unorm,
        usage: wgpu::TextureUsages::TEXTURE_BINDING | wgpu::TextureUsages::COPY_DST,
        view_formats: &[],
    });
    let pixel = |x: &f32| {
        let [r, g, b] = Palette::Diverging.colour(0.5 + 0.5 * f64::from(x / end));
        [r, g, b, 255]
    };
    let bytes: Vec<u8> = values.iter().flat_map(pixel).collect();
    let layout =
        wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(4 * size.width), rows_per_image: None };
    state.queue.write_texture(texture.as_image_copy(), &bytes, layout, size);
    Layer {
        id: LayerId::Parity,
        texture,
        range: (-end, end),
        palette: Palette::Diverging,
        grey: false,
        log: false,
    }
}

fn view(id: &str) -> Box<dyn View> {
    views().into_iter().find(|v| v.id() == id).expect("the view is in the list")
}

/// What a test looks at: one view in a window of its own.
struct Window {
    harness: Harness<'static>,
    name: String,
}

#[derive(Clone, Copy)]
struct Screen {
    theme: Theme,
    scale: f32,
    size: Vec2,
}

const DARK: Screen = Screen { theme: Theme::Dark, scale: 1.0, size: vec2(1000.0, 640.0) };

impl Window {
    /// Draws the view once with `change`d numbers; `None` of them before the first answer.
    fn open(id: &str, screen: Screen, change: impl FnOnce(Snapshot) -> Option<Snapshot>) -> Self {
        let state = create_render_state(default_wgpu_setup(), RendererOptions::PREDICTABLE);
        let snapshot = change(snapshot(&state));
        let mut textures = Textures::new(state.clone());
        textures.set_photo(&photo());
        let mut view = view(id);
        let (mut settings, mut query) = (Settings::default(), UVec2::new(184, 168));
        let (mut canvas, mut mask, mut cuts) = (Canvas::default(), MaskDocument::default(), Cuts::default());
        let draw = move |ui: &mut egui::Ui| {
            let mut context = ViewContext {
                settings: &mut settings,
                query: &mut query,
                canvas: &mut canvas,
                mask: &mut mask,
                cuts: &mut cuts,
                photo: None,
                snapshot: snapshot.as_ref(),
                textures: &mut textures,
            };
            egui::CentralPanel::default().show(ui, |ui| view.ui(ui, &mut context));
        };
        let mut harness = Harness::builder()
            .with_size(screen.size)
            .with_pixels_per_point(screen.scale)
            .with_theme(screen.theme)
            .with_context_setup(fonts::install)
            .renderer(WgpuTestRenderer::from_render_state(state))
            .build_ui(draw);
        harness.run_steps(3);
        let theme = if screen.theme == Theme::Dark { "dark" } else { "light" };
        let name = format!("{id}-{theme}-{}x{}@{}", screen.size.x, screen.size.y, screen.scale);
        Self { harness, name }
    }

    /// Renders it, and keeps the picture where asked.
    fn render(&mut self, what: &str) {
        let picture = self.harness.render().expect("it renders");
        let first = picture.pixels().next().copied().expect("a pixel");
        assert!(picture.pixels().any(|p| *p != first), "{} {what}: one colour only", self.name);
        if let Ok(folder) = std::env::var("WGATTN_KEEP_IMAGES") {
            let file = format!("{folder}/{}{what}.png", self.name);
            picture.save(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
        }
    }

    fn says(&self, part: &str) {
        let found = self.harness.query_all_by_label_contains(part).next().is_some();
        assert!(found, "{}: no {part:?} among {:?}", self.name, self.labels());
    }

    fn labels(&self) -> Vec<String> {
        fn collect(node: &Node<'_>, into: &mut Vec<String>) {
            into.extend(node.accesskit_node().label().or(node.accesskit_node().value()));
            node.children().for_each(|child| collect(&child, into));
        }
        let mut labels = Vec::new();
        collect(&self.harness.root(), &mut labels);
        labels
    }
}

const SCREENS: [Screen; 4] = [
    DARK,
    Screen { theme: Theme::Light, ..DARK },
    Screen { theme: Theme::Light, scale: 2.0, size: vec2(560.0, 480.0) },
    // A tile that is far too small: nothing fits, nothing panics.
    Screen { theme: Theme::Dark, scale: 1.0, size: vec2(140.0, 90.0) },
];

const IDS: [&str; 4] = ["convergence", "distances", "schedule", "parity"];

#[test]
fn every_view_is_drawn_in_both_themes_at_any_size() {
    for id in IDS {
        for screen in SCREENS {
            Window::open(id, screen, Some).render("");
        }
    }
}

#[test]
fn every_view_says_what_it_waits_for() {
    for id in IDS {
        let mut window = Window::open(id, DARK, |_| None);
        window.says("Nothing computed yet");
        window.render("-nothing");
    }
    let bare = |mut s: Snapshot| {
        (s.trace, s.distances, s.parity) = (None, None, None);
        s.schedules.clear();
        Some(s)
    };
    for (id, words) in
        IDS.into_iter().zip(["No residuals yet", "No distances yet", "Nothing ran", "No reference yet"])
    {
        let mut window = Window::open(id, DARK, bare);
        window.says(words);
        window.render("-bare");
    }
}

#[test]
fn what_can_never_come_is_explained() {
    let window = Window::open("convergence", DARK, |s| Some(Snapshot { landmarks: 0, trace: None, ..s }));
    window.says("Nothing to invert");
    let reason = "16384 tokens would take the reference about 40 s.";
    let refused = |s: Snapshot| Some(Snapshot { parity: None, no_parity: Some(reason.into()), ..s });
    let window = Window::open("parity", DARK, refused);
    window.says(reason);
}

#[test]
fn convergence_tells_the_state_of_every_head() {
    let mut window = Window::open("convergence", DARK, |mut s| {
        s.inverse[1].code = 1;
        s.inverse[3].code = 3;
        Some(s)
    });
    window.says("2 of 4 heads did not converge by themselves");
    for words in ["Converged", "Cholesky", "Failed", "49 landmarks", "eigenvalues in f64"] {
        window.says(words);
    }
    window.harness.get_by_label("2").click();
    window.harness.run_steps(2);
    window.render("-head-2");
}

#[test]
fn distances_say_why_the_tails_matter() {
    let window = Window::open("distances", DARK, Some);
    for words in
        ["keep a kernel value above 0.001 under the Laplacian", "Farthest tenth", "pairs of different tokens"]
    {
        window.says(words);
    }
}

#[test]
fn schedule_counts_passes_and_memory_and_explains_a_pass_under_the_pointer() {
    let mut window = Window::open("schedule", DARK, Some);
    for words in ["Without sharing", "Saved", "Time of all passes"] {
        window.says(words);
    }
    window.says(&made().schedule.steps.len().to_string());
    // Somewhere among the names of the passes.
    window.harness.hover_at(egui::pos2(420.0, 200.0));
    window.harness.run_steps(8);
    for words in ["Moves at least", "Variant"] {
        window.says(words);
    }
    window.render("-pass");
    window.harness.hover_at(egui::pos2(60.0, 330.0));
    window.harness.run_steps(8);
    for words in ["Written by", "Memory"] {
        window.says(words);
    }
    window.render("-tensor");
    for (button, what) in [("Memory slots", "-slots"), ("Time", "-time"), ("By size", "-size")] {
        window.harness.get_by_label(button).click();
        window.harness.run_steps(2);
        window.render(what);
    }
}

#[test]
fn a_long_schedule_stays_readable_and_can_be_filtered() {
    let large = &made().large;
    assert!(large.steps.len() >= 40, "only {} passes", large.steps.len());
    let with_large = |mut s: Snapshot| {
        s.schedules.push(made().large.clone());
        s.timings.steps = times(&made().large);
        Some(s)
    };
    for screen in SCREENS {
        Window::open("schedule", screen, with_large).render("-large");
    }
    let mut window = Window::open("schedule", DARK, with_large);
    // The last program is the one that runs for every click, so it is shown first.
    window.says(&format!("Passes: {}", large.steps.len()));
    window.harness.get_by_role(egui::accesskit::Role::TextInput).focus();
    window.harness.run_steps(2);
    window.harness.get_by_role(egui::accesskit::Role::TextInput).type_text("gram");
    window.harness.run_steps(3);
    window.render("-large-filtered");
    window.harness.get_by_role(egui::accesskit::Role::TextInput).type_text("qqq");
    window.harness.run_steps(3);
    window.says("Nothing found");
    window.harness.get_by_label("Clear").click();
    window.harness.run_steps(3);
    assert!(window.harness.query_by_label_contains("Nothing found").is_none());
}

#[test]
fn schedule_without_times_still_stands() {
    let mut window = Window::open("schedule", DARK, |mut s| {
        s.timings.steps.clear();
        Some(s)
    });
    window.says("Time of the run");
    window.render("-untimed");
}

#[test]
fn parity_puts_the_tolerance_into_words() {
    let window = Window::open("parity", DARK, Some);
    for words in ["Equal to rounding", "Reference took", "1.37 s", "head 3"] {
        window.says(words);
    }
    let window = Window::open("parity", DARK, |mut s| {
        let mut parity = s.parity.as_deref().cloned().expect("the snapshot has one");
        parity.relative = 0.2;
        s.parity = Some(Arc::new(parity));
        Some(s)
    });
    window.says("Different");
}

#[test]
fn tour_pages_prepare_settings_that_compute() {
    for id in ["convergence", "distances"] {
        let pages = view(id).tour();
        assert_eq!(pages.len(), 1, "{id}");
        let mut settings = Settings::default();
        settings.compute.similarity = Similarity::Softmax;
        (pages[0].prepare)(&mut settings);
        assert_eq!(settings.compute.similarity, Similarity::Laplacian);
        settings.compute.scene().expect("the page's settings are a scene");
    }
}
