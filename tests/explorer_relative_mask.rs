//! The view of masks of relative positions, driven as a user would: handles, tables by hand, what goes with what, sessions.

mod explorer_driver;

use eframe::egui::{self, Key, Modifiers, PointerButton, Pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use explorer_driver::{click, drawn, file, open, settle};
use std::path::PathBuf;
use std::sync::OnceLock;
use wgattn::explorer::session::Session;
use wgattn::explorer::settings::{Compute, Device, RowForm, Similarity};
use wgattn::explorer::snapshot::{Guard, LayerId, MaskWay};
use wgattn::explorer::{App, Options};
use wgattn::mask::{MaskSpec, RelativeTable};

/// The picture that all tests share: written once, so that none reads what another is writing.
fn picture() -> String {
    static PICTURE: OnceLock<String> = OnceLock::new();
    PICTURE.get_or_init(|| drawn("relative-mask.png", 160, 120)).clone()
}

/// The view over a picture of 160 × 120 pixels in 20 × 15 tokens, with these settings.
fn opened(size: egui::Vec2, change: impl FnOnce(&mut Compute)) -> Harness<'static, App> {
    let sources = vec![picture()];
    let mut harness =
        open(Options { sources, views: vec!["relative-mask".into()], ..Options::default() }, size);
    settle(&mut harness);
    change(&mut harness.state_mut().document_mut().settings.compute);
    settle(&mut harness);
    harness.run_steps(2);
    harness
}

fn view(mask: &str) -> Harness<'static, App> {
    let mask = spec(mask);
    opened(vec2(1280.0, 800.0), |c| {
        c.similarity = Similarity::Elu;
        c.mask = mask;
    })
}

fn spec(text: &str) -> MaskSpec {
    text.parse().expect(text)
}

/// Keeps a picture to be looked at, where that is asked for.
fn keep(harness: &mut Harness<'_, App>, name: &str) {
    if let Some(folder) = std::env::var_os("WGATTN_KEEP_IMAGES") {
        let picture = harness.render().expect("a picture of the window");
        picture.save(PathBuf::from(folder).join(format!("{name}.png"))).expect("kept to be looked at");
    }
}

#[test]
fn it_can_be_read_in_windows_of_all_sizes() {
    for (theme, name) in [(egui::Theme::Dark, "dark"), (egui::Theme::Light, "light")] {
        for (mask, kind) in [
            ("toeplitz:gauss,size=4,torus", "gauss"),
            (
                "stencil:7x7,0/0/0/1/0/0/0/0/0/0/1/0/0/0/0/0/0.5/1/0.5/0/0/1/1/1/1/1/1/1/0/0/0.5/1/0.5/0/0/0/0/0/1/0/0/0/0/0/0/1/0/0/0",
                "hand",
            ),
            ("separable:rows=2,cols=5", "separable"),
            ("none", "none"),
        ] {
            for size in [vec2(1280.0, 800.0), vec2(640.0, 420.0), vec2(900.0, 700.0)] {
                if size.x != 1280.0 && (kind == "separable" || name == "light") {
                    continue;
                }
                let mut harness = view(mask);
                harness.ctx.set_theme(theme);
                harness.set_size(size);
                settle(&mut harness);
                harness.run_steps(4);
                assert!(harness.state().failure().is_none(), "{:?}", harness.state().failure());
                keep(&mut harness, &format!("relative-{kind}-{name}-{}", size.x));
                if size.x < 900.0 && kind == "hand" {
                    for part in ["Maps", "Weights", "Matrix", "Cost"] {
                        harness.get_by_label(part).click();
                        harness.run_steps(3);
                        keep(&mut harness, &format!("relative-{kind}-{name}-{}-{part}", size.x));
                    }
                }
            }
        }
    }
}

fn drag(harness: &mut Harness<'_, App>, from: Pos2, by: egui::Vec2) {
    let press = |pos, pressed| egui::Event::PointerButton {
        pos,
        button: PointerButton::Primary,
        pressed,
        modifiers: Modifiers::NONE,
    };
    harness.event(egui::Event::PointerMoved(from));
    harness.step();
    harness.event(press(from, true));
    harness.step();
    for part in 1..=8 {
        harness.event(egui::Event::PointerMoved(from + by * (part as f32 / 8.0)));
        harness.step();
    }
    harness.event(press(from + by, false));
    harness.step();
}

fn mask(harness: &Harness<'_, App>) -> MaskSpec {
    harness.state().document().settings.compute.mask.clone()
}

fn weights(harness: &Harness<'_, App>) -> Vec<f32> {
    let snapshot = harness.state().snapshot().expect("a map");
    snapshot.mask_weights.as_ref().expect("there is a mask").to_vec()
}

#[test]
fn dragging_the_handle_changes_size_and_map_and_undo_goes_back() {
    let mut harness = view("toeplitz:gauss,size=4,distance=l2");
    let before = harness.state().snapshot().expect("a map").row.fused.clone();
    let query = harness.state().document().query;
    let handle = harness.get_by_label("Size of the mask").rect().center();
    drag(&mut harness, handle, vec2(48.0, 0.0));
    settle(&mut harness);
    let MaskSpec::Toeplitz(dragged) = mask(&harness) else { panic!("{:?}", mask(&harness)) };
    assert!(dragged.size > 5.5 && dragged.size < 9.0, "{}", dragged.size);
    assert_eq!(harness.state().document().query, query, "the handle is not the picture");
    let snapshot = harness.state().snapshot().expect("a map");
    assert_eq!(snapshot.compute.mask, mask(&harness), "the map is that of the new mask");
    let after = &snapshot.row.fused;
    // The window is wider: far tokens count more.
    let far = 0;
    assert!(after[far] > 2.0 * before[far], "{} then {}", before[far], after[far]);
    let moved = harness.get_by_label("Size of the mask").rect().center();
    assert!((moved - handle - vec2(48.0, 0.0)).length() < 4.0, "the handle is where it was left: {moved:?}");
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    settle(&mut harness);
    assert_eq!(mask(&harness), spec("toeplitz:gauss,size=4,distance=l2"), "one step for the drag");
    assert_eq!(harness.state().snapshot().expect("a map").row.fused, before);
}

#[test]
fn rows_and_columns_of_separable_masks_have_handles_of_their_own() {
    let mut harness = view("separable:rows=2,cols=3");
    let handle = harness.get_by_label("Rows of the mask").rect().center();
    drag(&mut harness, handle, vec2(0.0, 30.0));
    settle(&mut harness);
    let MaskSpec::Separable { rows, cols } = mask(&harness) else { panic!("still separable") };
    assert!(rows > 3.0 && cols == 3.0, "{rows} × {cols}");
    let handle = harness.get_by_label("Columns of the mask").rect().center();
    drag(&mut harness, handle, vec2(-26.0, 0.0));
    settle(&mut harness);
    let MaskSpec::Separable { rows: same, cols } = mask(&harness) else { panic!("still separable") };
    assert!(same == rows && cols < 2.0, "{same} × {cols}");
}

/// Row = mask × unmasked row over its sum, or without the division for bare kernel values, in f64.
#[test]
fn the_row_under_the_mask_is_the_one_without_it_times_the_weights_over_their_sum() {
    let kernels = [
        (Similarity::Elu, true),
        (Similarity::Relu, true),
        (Similarity::Exponential, true),
        (Similarity::FavorPlus, true),
        (Similarity::Softmax, true),
        (Similarity::Laplacian, false),
        (Similarity::Gaussian, false),
    ];
    let mut harness = view("none");
    for text in [
        "toeplitz:triangle,size=5,distance=l1,torus,causal",
        "stencil:3x3,0/1/0.25/0/1/2/0/0/1",
        "decay:0.9,both",
    ] {
        for (similarity, divided) in kernels {
            let compute = &mut harness.state_mut().document_mut().settings.compute;
            (compute.similarity, compute.mask) = (similarity, spec(text));
            settle(&mut harness);
            let app = harness.state();
            assert!(app.failure().is_none(), "{text}, {similarity:?}: {:?}", app.failure());
            let snapshot = app.snapshot().expect("a map");
            let table: RelativeTable = spec(text).table(&[15, 20]).expect("a table");
            let bare = snapshot.unmasked_row.as_ref().expect("the view asks for it");
            for (head, (masked, bare)) in snapshot.row.heads.iter().zip(&bare.heads).enumerate() {
                let products: Vec<f64> = (0..300)
                    .map(|key| {
                        let weight = table.weight(0, snapshot.query_token as u32, key);
                        f64::from(weight) * f64::from(bare[key as usize])
                    })
                    .collect();
                let sum: f64 = if divided { products.iter().sum() } else { 1.0 };
                assert!(sum > 0.0);
                let largest = products.iter().fold(0.0_f64, |m, x| m.max(x.abs())) / sum;
                for (token, (found, product)) in masked.iter().zip(&products).enumerate() {
                    let gap = (f64::from(*found) - product / sum).abs();
                    assert!(
                        gap <= 2e-6 * largest,
                        "{text}, {similarity:?}, head {head}, token {token}: {found}, in f64 {}",
                        product / sum
                    );
                }
            }
            // Each has its own colours: the row without the mask would be dark in those of the few tokens under it.
            for (id, row) in [(LayerId::Map, &snapshot.row), (LayerId::Unmasked, bare)] {
                let range = snapshot.layer(id).expect("painted").range;
                let largest = row.fused.iter().fold(0.0_f32, |m, x| m.max(*x));
                assert_eq!(range, (0.0, largest), "{text}, {similarity:?}, {id:?}");
            }
        }
    }
}

#[test]
fn switches_join_borders_and_hide_what_comes_later() {
    let mut harness = view("toeplitz:window,size=3,distance=linf");
    harness.state_mut().document_mut().query = [0, 0];
    settle(&mut harness);
    let last = 20 * 15 - 1;
    assert_eq!((weights(&harness)[0], weights(&harness)[last]), (1.0, 0.0));
    harness.get_by_label("Torus").click();
    settle(&mut harness);
    assert_eq!(mask(&harness), spec("toeplitz:window,size=3,distance=linf,torus"));
    assert_eq!(weights(&harness)[last], 1.0, "the corner across is a neighbour");
    keep(&mut harness, "relative-torus");
    harness.get_by_label("Causal").click();
    settle(&mut harness);
    assert_eq!(mask(&harness), spec("toeplitz:window,size=3,distance=linf,torus,causal"));
    let later = weights(&harness)[1..].iter().filter(|w| **w != 0.0).count();
    assert_eq!(later, 0, "nothing comes before the first token");
    harness.state_mut().document_mut().query = [159, 119];
    settle(&mut harness);
    assert_eq!(weights(&harness)[0], 1.0, "it wraps, and comes before");
}

#[test]
fn tables_are_made_by_hand() {
    let mut harness = view("stencil:3x3,0/0/0/0/1/0/0/0/0");
    let area = harness.get_by_label("Weights around the query").rect();
    let cell =
        |row: usize, col: usize| area.min + area.size() * vec2(col as f32 + 0.5, row as f32 + 0.5) / 3.0;
    let table = |harness: &Harness<'_, App>| match mask(harness) {
        MaskSpec::Stencil(table) => table,
        other => panic!("{other}"),
    };
    click(&mut harness, cell(1, 2), PointerButton::Primary);
    settle(&mut harness);
    assert_eq!(table(&harness).weights, [0., 0., 0., 0., 1., 1., 0., 0., 0.]);
    let snapshot = harness.state().snapshot().expect("a map");
    let right = snapshot.query_token + 1;
    assert!(
        snapshot.row.fused[right] > 0.0 && snapshot.row.fused[right + 1] == 0.0,
        "the key to the right is seen"
    );
    // Across the lowest row.
    drag(&mut harness, cell(2, 0), cell(2, 2) - cell(2, 0));
    assert_eq!(table(&harness).weights, [0., 0., 0., 0., 1., 1., 1., 1., 1.]);
    // A second click clears, and so does the right button.
    click(&mut harness, cell(2, 1), PointerButton::Primary);
    click(&mut harness, cell(1, 1), PointerButton::Secondary);
    settle(&mut harness);
    assert_eq!(table(&harness).weights, [0., 0., 0., 0., 0., 1., 1., 0., 1.]);
    harness.get_by_label("More columns").click();
    settle(&mut harness);
    let wide = table(&harness);
    assert_eq!((wide.rows, wide.cols, wide.weights.len()), (3, 5, 15));
    assert_eq!(wide.weights[8], 1.0, "weights stay where they were from the query");
    harness.get_by_label("Fewer rows").click();
    settle(&mut harness);
    assert_eq!(mask(&harness), spec("stencil:1x5,0/0/0/1/0"));
    harness.get_by_label("Ones").click();
    settle(&mut harness);
    assert_eq!(mask(&harness), spec("stencil:1x5,1/1/1/1/1"));
    let seen = weights(&harness).iter().filter(|w| **w > 0.0).count();
    assert_eq!(seen, 5);
    assert!(harness.state().failure().is_none());
}

#[test]
fn clicking_elsewhere_takes_the_window_along() {
    let mut harness = view("toeplitz:window,size=2,distance=l2");
    let handle = harness.get_by_label("Size of the mask").rect().center();
    let before = harness.state().snapshot().expect("a map").query_token;
    click(&mut harness, handle + vec2(-96.0, 36.0), PointerButton::Primary);
    settle(&mut harness);
    let snapshot = harness.state().snapshot().expect("a map");
    assert_ne!(snapshot.query_token, before);
    let all = weights(&harness);
    assert_eq!(all[snapshot.query_token], 1.0);
    assert_eq!(all[before], 0.0, "it is no longer there");
    // Resting over a token tells its weight.
    harness.hover_at(handle);
    harness.run_steps(3);
    assert!(harness.query_by_label_contains("Mask weight").is_some());
}

#[test]
fn painted_masks_and_relative_ones_work_together() {
    use wgattn::explorer::mask::Paint;
    let mut harness = view("toeplitz:window,size=3,distance=linf");
    let photo = glam::UVec2::new(160, 120);
    let half = (glam::DVec2::new(0.0, 0.0), glam::DVec2::new(80.0, 120.0));
    harness.state_mut().document_mut().mask.rectangle(photo, half.0, half.1, Paint::Hidden);
    settle(&mut harness);
    let snapshot = harness.state().snapshot().expect("a map");
    for (token, value) in snapshot.row.fused.iter().enumerate() {
        let seen = token % 20 >= 10 && weights(&harness)[token] > 0.0;
        assert_eq!(*value > 0.0, seen, "token {token}: {value}");
    }
    let sum: f32 = snapshot.row.heads[0].iter().sum();
    assert!((sum - 1.0).abs() < 1e-5, "what is left shares the weight: {sum}");
}

#[test]
fn a_mask_that_hides_everything_is_told_and_nothing_breaks() {
    let mut harness = view("stencil:1x1,0");
    let app = harness.state();
    assert!(app.snapshot().expect("an answer").sees_nothing());
    let why = app.failure().expect("it is told");
    assert!(why.contains("hides every token") && why.contains("change it"), "{why}");
    keep(&mut harness, "relative-nothing");
    // A device that computes elsewhere says the same.
    harness.state_mut().document_mut().settings.device = Device::Named("cpu".into());
    settle(&mut harness);
    assert!(harness.state().snapshot().expect("an answer").sees_nothing());
    harness.state_mut().document_mut().settings.compute.mask = spec("stencil:1x1,1");
    settle(&mut harness);
    assert!(harness.state().failure().is_none(), "and it goes away");
}

#[test]
fn whitened_rows_and_masks_do_not_go_together_and_it_is_said() {
    let mut harness = opened(vec2(1280.0, 800.0), |c| c.form = RowForm::Row);
    let kept = harness.state().snapshot().expect("a map").request;
    harness.state_mut().document_mut().settings.compute.mask = spec("causal");
    settle(&mut harness);
    let why = harness.state().failure().expect("a reason").to_string();
    assert!(why.contains("normalisation of masked rows") && !why.contains('\n'), "{why}");
    assert_eq!(harness.state().snapshot().map(|s| s.request), Some(kept), "the last map stays");
    keep(&mut harness, "relative-whitened");
    assert!(
        harness.query_all_by_label_contains("whitened ones hold no weights").count() > 1,
        "panel and view say so, too"
    );
    harness.state_mut().document_mut().settings.compute.mask = MaskSpec::None;
    settle(&mut harness);
    assert!(harness.state().failure().is_none());
    // A mask that is chosen takes the form away, and says so.
    harness.key_press(Key::W);
    settle(&mut harness);
    let compute = &harness.state().document().settings.compute;
    assert!(compute.form == RowForm::None && compute.mask != MaskSpec::None);
    assert!(harness.query_by_label_contains("Row was set back to none").is_some());
    assert!(harness.state().failure().is_none());
}

#[test]
fn the_key_goes_through_all_kinds_of_masks() {
    let mut harness = opened(vec2(1280.0, 800.0), |_| {});
    let mut seen = vec![MaskSpec::None];
    for _ in 0..6 {
        harness.key_press(Key::W);
        settle(&mut harness);
        assert!(harness.state().failure().is_none(), "{}: {:?}", mask(&harness), harness.state().failure());
        let snapshot = harness.state().snapshot().expect("a map");
        assert_eq!(snapshot.compute.mask, mask(&harness));
        seen.push(mask(&harness));
    }
    assert_eq!(seen.first(), seen.last(), "around");
    assert_eq!(seen.len(), 7);
}

#[test]
fn other_views_go_along_with_features_and_masks() {
    let mut harness = opened(vec2(1280.0, 800.0), |c| {
        c.similarity = Similarity::FavorPlus;
        c.mask = spec("toeplitz:gauss,size=5,distance=l2");
    });
    for view in [
        "compare",
        "attention",
        "landmarks",
        "convergence",
        "distances",
        "parity",
        "schedule",
        "mask-topology",
    ] {
        assert!(harness.state_mut().open_view(view));
        settle(&mut harness);
        harness.run_steps(3);
        assert!(harness.state().failure().is_none(), "{view}: {:?}", harness.state().failure());
        keep(&mut harness, &format!("relative-favor-{view}"));
        let snapshot = harness.state().snapshot().expect("a map");
        match view {
            "compare" => {
                let error = snapshot.relative_error.expect("FAVOR+ approximates softmax");
                assert!(error > 0.0 && error < 1.0, "{error}");
            }
            "parity" => {
                let parity = snapshot.parity.as_ref().expect("the reference knows masks, too");
                assert!(parity.relative < 1e-5, "{}", parity.relative);
            }
            _ => {}
        }
    }
    // Another feature map has another row, although its inputs are the same.
    assert!(harness.state_mut().open_view("parity"));
    harness.state_mut().document_mut().settings.compute.similarity = Similarity::Relu;
    settle(&mut harness);
    let parity = harness.state().snapshot().expect("a map").parity.clone().expect("asked again");
    assert!(parity.relative < 1e-5, "{}", parity.relative);
}

#[test]
fn ways_and_guard_are_told() {
    let mut harness = view("toeplitz:gauss,size=4,distance=l2");
    let snapshot = harness.state().snapshot().expect("a map");
    let Some(MaskWay::Table { plan, features, columns, .. }) = &snapshot.mask_way else {
        panic!("{:?}", snapshot.mask_way)
    };
    assert!((*features, *columns) == (32, 3) && plan.pairs_ms > 0.0 && plan.fourier_ms > 0.0);
    let Some(Guard::Measured { flagged, rows, .. }) = snapshot.guard.as_deref() else {
        panic!("{:?}", snapshot.guard)
    };
    assert_eq!((*flagged, *rows), (0, 4 * 300), "a wide mask over positive features has no small sums");
    let flagged = |harness: &mut Harness<'_, App>, similarity: Similarity, mask: &str| {
        let compute = &mut harness.state_mut().document_mut().settings.compute;
        (compute.similarity, compute.mask) = (similarity, spec(mask));
        settle(harness);
        let snapshot = harness.state().snapshot().expect("a map");
        let Some(Guard::Measured { flagged, rows: 1200, .. }) = snapshot.guard.as_deref() else {
            panic!("{mask}: {:?}", snapshot.guard)
        };
        *flagged
    };
    // Every query sees the key above and to the right of it alone: those of the first row and of the last column see none.
    let none = flagged(&mut harness, Similarity::Elu, "stencil:3x3,0/0/1/0/0/0/0/0/0");
    assert_eq!(none, 4 * (20 + 15 - 1), "rows without a key");
    // Where every query sees itself alone, sums of e^x differ by orders of magnitude, and the noise is that of the largest.
    let spoilt = flagged(&mut harness, Similarity::Exponential, "toeplitz:window,size=0.5,distance=l2");
    assert!(spoilt > 0 && spoilt < 1200, "{spoilt}");
    for (mask, similarity, expected) in [
        ("causal", Similarity::Elu, MaskWay::Scan),
        ("separable:size=3", Similarity::Relu, MaskWay::Scan),
        ("toeplitz:gauss,size=4", Similarity::Laplacian, MaskWay::NoFeatures),
    ] {
        let compute = &mut harness.state_mut().document_mut().settings.compute;
        (compute.similarity, compute.mask) = (similarity, spec(mask));
        settle(&mut harness);
        let snapshot = harness.state().snapshot().expect("a map");
        assert_eq!(snapshot.mask_way.as_ref(), Some(&expected), "{mask}");
        assert_eq!(snapshot.guard, None, "nothing is transformed");
    }
    let settings = &mut harness.state_mut().document_mut().settings;
    (settings.compute.similarity, settings.device) = (Similarity::Elu, Device::Named("cpu".into()));
    settle(&mut harness);
    let snapshot = harness.state().snapshot().expect("a map");
    assert_eq!(snapshot.mask_way, Some(MaskWay::Reference));
    assert!(matches!(snapshot.guard.as_deref(), Some(Guard::NotMeasured(_))), "{:?}", snapshot.guard);
}

#[test]
fn without_the_view_on_screen_nothing_more_is_computed() {
    let mut harness = view("toeplitz:gauss,size=4,distance=l2");
    assert!(harness.state_mut().open_view("attention"));
    settle(&mut harness);
    let snapshot = harness.state().snapshot().expect("a map");
    assert!(snapshot.unmasked_row.is_none() && snapshot.mask_way.is_none() && snapshot.guard.is_none());
    assert!(snapshot.layer(LayerId::Unmasked).is_none());
    assert!(snapshot.mask_weights.is_some(), "the probe tells weights in every view");
}

#[test]
fn a_mask_survives_a_session_and_a_bad_one_is_refused_by_name() {
    let path = file("relative.json");
    let mut session = Session::default();
    let compute = &mut session.document.settings.compute;
    compute.similarity = Similarity::FavorPlus;
    compute.random_features = 48;
    compute.mask = spec("stencil:3x3,0/1/0/0.1/1/0.3/0/7/0,torus");
    session.open_views = vec!["relative-mask".into()];
    session.source = Some(drawn("session-mask.png", 96, 72));
    session.save(&path).expect("saved");
    let text = std::fs::read_to_string(&path).expect("written");
    assert!(text.contains("\"mask\": \"stencil:3x3,0/1/0/0.1/1/0.3/0/7/0,torus\""), "{text}");
    assert_eq!(Session::load(&path).expect("read"), session);
    let mut harness =
        open(Options { session: Some(path.clone()), ..Options::default() }, vec2(1280.0, 800.0));
    settle(&mut harness);
    assert_eq!(harness.state().document().settings.compute, session.document.settings.compute);
    let snapshot = harness.state().snapshot().expect("a map");
    assert!(snapshot.exact_row.is_some() && !snapshot.exact, "FAVOR+ has softmax beside it");
    assert!(snapshot.unmasked_row.is_some(), "the view is open again");

    let bad = text.replace("stencil:3x3,0/1/0/", "stencil:3x3,0/1/");
    std::fs::write(&path, bad).expect("written");
    let error = Session::load(&path).expect_err("it cannot be").to_string();
    assert!(error.contains("document.settings.compute.mask") && error.contains("9 for 3x3"), "{error}");
    let mut harness = open(Options { session: Some(path), ..Options::default() }, vec2(1280.0, 800.0));
    settle(&mut harness);
    assert!(
        harness.query_by_label_contains("document.settings.compute.mask").is_some(),
        "and the window says so"
    );
    // Sessions from before there were masks.
    let old = file("old.json");
    std::fs::write(&old, "{\"version\":1,\"document\":{\"settings\":{\"compute\":{\"heads\":3}}}}")
        .expect("written");
    let compute = Session::load(&old).expect("still read").document.settings.compute;
    assert_eq!((compute.heads, compute.mask), (3, MaskSpec::None));
}

/// Prints how long a map takes while the size is dragged over the test picture of a cat. No assertion on times: machines differ.
#[test]
fn times_from_dragging_to_the_map() {
    let cat = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("assets/chelsea.png");
    let sources = vec![cat.display().to_string()];
    let options = Options { sources, views: vec!["relative-mask".into()], ..Options::default() };
    let mut harness = open(options, vec2(1280.0, 800.0));
    let compute = &mut harness.state_mut().document_mut().settings.compute;
    (compute.similarity, compute.mask) = (Similarity::Elu, spec("toeplitz:gauss,size=8,distance=l2"));
    harness.state_mut().document_mut().query = [260, 90];
    let from = std::time::Instant::now();
    settle(&mut harness);
    let snapshot = harness.state().snapshot().expect("a map");
    println!(
        "{} tokens, first map and guard: {:.2} s, {:?}",
        snapshot.grid.tokens(),
        from.elapsed().as_secs_f64(),
        snapshot.guard
    );
    keep(&mut harness, "relative-cat");
    let handle = harness.get_by_label("Size of the mask").rect().center();
    let press = |pressed, pos| egui::Event::PointerButton {
        pos,
        button: PointerButton::Primary,
        pressed,
        modifiers: Modifiers::NONE,
    };
    harness.event(egui::Event::PointerMoved(handle));
    harness.step();
    harness.event(press(true, handle));
    harness.step();
    let mut times = Vec::new();
    for i in 1..=20 {
        let from = std::time::Instant::now();
        harness.event(egui::Event::PointerMoved(handle + vec2(8.0 + 4.0 * i as f32, 0.0)));
        harness.step();
        let wanted = mask(&harness);
        while harness.state().snapshot().is_none_or(|s| s.compute.mask != wanted) {
            std::thread::sleep(std::time::Duration::from_micros(500));
            harness.step();
        }
        let snapshot = harness.state().snapshot().expect("a map");
        assert!(snapshot.guard.is_none(), "nothing is measured during a drag");
        times.push(from.elapsed().as_secs_f64());
    }
    let end = handle + vec2(88.0, 0.0);
    harness.event(press(false, end));
    let from = std::time::Instant::now();
    settle(&mut harness);
    let snapshot = harness.state().snapshot().expect("a map");
    println!("guard after the drag: {:.2} s, {:?}", from.elapsed().as_secs_f64(), snapshot.guard);
    assert!(snapshot.guard.is_some(), "it is measured once the mask rests");
    times.sort_by(f64::total_cmp);
    println!("dragging the size: median {:.1} ms, slowest {:.1} ms", 1e3 * times[10], 1e3 * times[19]);
    assert!(times.iter().all(|t| t.is_finite()));
}
