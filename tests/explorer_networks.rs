//! The views of networks, trees and diffusions, driven as a user would: panels, dragged nodes, files, sweeps, obstacles and links.

mod explorer_driver;

use eframe::egui::{self, Key, Modifiers, PointerButton, Pos2, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use explorer_driver::{click, copied, drawn, file, open, settle};
use std::path::PathBuf;
use std::sync::OnceLock;
use wgattn::explorer::networks::{NetworkSettings, Shape, Source, SweepBy, TreeOf};
use wgattn::explorer::session::Session;
use wgattn::explorer::settings::Device;
use wgattn::explorer::{App, Options};
use wgattn::mask::network::Diffusion;
use wgattn::topology::Laplacian;

/// The picture that all tests share: written once, so that none reads what another is writing.
fn picture() -> String {
    static PICTURE: OnceLock<String> = OnceLock::new();
    PICTURE.get_or_init(|| drawn("networks.png", 160, 120)).clone()
}

fn view(id: &str, size: egui::Vec2) -> Harness<'static, App> {
    let options = Options { sources: vec![picture()], views: vec![id.into()], ..Options::default() };
    let mut harness = open(options, size);
    settle(&mut harness);
    harness
}

const WIDE: egui::Vec2 = vec2(1280.0, 800.0);

/// Keeps a picture to be looked at, where that is asked for.
fn keep(harness: &mut Harness<'_, App>, name: &str) {
    harness.run_steps(3);
    if let Some(folder) = std::env::var_os("WGATTN_KEEP_IMAGES") {
        let picture = harness.render().expect("a picture of the window");
        picture.save(PathBuf::from(folder).join(format!("{name}.png"))).expect("kept to be looked at");
    }
}

fn network<'a>(harness: &'a mut Harness<'_, App>) -> &'a mut NetworkSettings {
    &mut harness.state_mut().document_mut().settings.networks.network
}

fn drag(harness: &mut Harness<'_, App>, from: Pos2, to: Pos2) {
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
    for part in 1..=6 {
        harness.event(egui::Event::PointerMoved(from + (to - from) * (part as f32 / 6.0)));
        harness.step();
    }
    harness.event(press(to, false));
    harness.step();
}

/// The value of a figure: what stands behind its caption.
fn figure(harness: &Harness<'_, App>, caption: &str) -> String {
    let start = format!("{caption}: ");
    let words = |node: &egui_kittest::Node<'_>| {
        let node = node.accesskit_node();
        node.value().or_else(|| node.label())
    };
    let found = harness.query_all_by_label_contains(&start);
    let labels: Vec<String> =
        found.filter_map(|node| words(&node)).filter(|l| l.starts_with(&start)).collect();
    let first = labels.first().unwrap_or_else(|| panic!("no figure {caption}"));
    first[start.len()..].to_string()
}

fn number(harness: &Harness<'_, App>, caption: &str) -> f64 {
    figure(harness, caption).replace(['\u{202f}', '\u{2009}', ' '], "").parse().expect("a number")
}

#[test]
fn they_can_be_read_in_windows_of_all_sizes() {
    for (theme, name) in [(egui::Theme::Dark, "dark"), (egui::Theme::Light, "light")] {
        for id in ["network", "tree", "diffusion"] {
            for size in [WIDE, vec2(640.0, 420.0), vec2(900.0, 700.0)] {
                if size.x == 900.0 && name == "light" {
                    continue;
                }
                let mut harness = view(id, size);
                harness.ctx.set_theme(theme);
                settle(&mut harness);
                assert!(harness.state().failure().is_none(), "{:?}", harness.state().failure());
                keep(&mut harness, &format!("{id}-{name}-{}", size.x));
                let parts: &[&str] = match (id, size.x < 700.0) {
                    ("network", true) => &["Walk", "Path", "Steps", "Figures", "Heat"],
                    ("tree", true) => &["Row", "Sweep"],
                    ("diffusion", true) => &["Map × mask", "Mask"],
                    _ => &[],
                };
                for part in parts {
                    let tabs: Vec<Pos2> =
                        harness.query_all_by_label(part).map(|node| node.rect().center()).collect();
                    // Other parts of the window may have the same words.
                    let tab = tabs.into_iter().filter(|at| at.x > 304.0).min_by(|a, b| a.y.total_cmp(&b.y));
                    click(&mut harness, tab.expect("a tab"), PointerButton::Primary);
                    settle(&mut harness);
                    keep(&mut harness, &format!("{id}-{name}-{}-{part}", size.x));
                }
            }
        }
    }
}

#[test]
fn every_built_in_network_is_shown_with_its_figures() {
    let mut harness = view("network", WIDE);
    for (shape, name, _) in Shape::ALL {
        for nodes in [1, 2, 60] {
            let settings = network(&mut harness);
            (settings.source, settings.nodes) = (Source::Built(shape), nodes);
            settle(&mut harness);
            let known = shape.network(nodes).expect("a network");
            assert_eq!(number(&harness, "Nodes"), known.nodes() as f64, "{name} {nodes}");
            assert_eq!(number(&harness, "Edges"), known.statistics().edges as f64, "{name} {nodes}");
            assert_eq!(number(&harness, "Components"), known.components().count as f64, "{name}");
        }
        keep(&mut harness, &format!("network-shape-{shape:?}"));
    }
    let settings = network(&mut harness);
    (settings.source, settings.nodes) = (Source::Built(Shape::Grid), 4096);
    settle(&mut harness);
    assert_eq!(number(&harness, "Nodes"), 4096.0);
    keep(&mut harness, "network-large");
}

#[test]
fn longer_times_and_smaller_tolerances_take_more_terms() {
    let mut harness = view("network", WIDE);
    let few = number(&harness, "Chebyshev terms K");
    network(&mut harness).time = 40.0;
    settle(&mut harness);
    let more = number(&harness, "Chebyshev terms K");
    network(&mut harness).tolerance = 1e-12;
    settle(&mut harness);
    let most = number(&harness, "Chebyshev terms K");
    assert!(few < more && more < most, "{few} {more} {most}");
    harness.key_press(Key::OpenBracket);
    harness.run_steps(2);
    assert!(network(&mut harness).time < 40.0, "[ shortens t");
    for (_, laplacian) in Laplacian::ALL {
        network(&mut harness).laplacian = laplacian;
        settle(&mut harness);
        assert!(harness.query_by_label_contains("Time steps, not the production path").is_some());
    }
}

#[test]
fn nodes_are_chosen_and_dragged_and_undo_puts_them_back() {
    let mut harness = view("network", WIDE);
    let settings = network(&mut harness);
    (settings.source, settings.nodes) = (Source::Built(Shape::Grid), 25);
    settle(&mut harness);
    harness.run_steps(2);
    // The middle of a grid of 5 × 5 is node 12, wherever its corners went: the middle of the first panel.
    let (left, right) = (304.0, 1280.0);
    let first = pos2(left + (right - left) / 6.0, 0.0);
    let mut chosen = None;
    for y in (150..500).step_by(6) {
        click(&mut harness, pos2(first.x, y as f32), PointerButton::Primary);
        if network(&mut harness).query == 12 {
            chosen = Some(pos2(first.x, y as f32));
            break;
        }
    }
    let at = chosen.expect("the middle node is found in the middle");
    settle(&mut harness);
    drag(&mut harness, at, at + vec2(40.0, 30.0));
    settle(&mut harness);
    let moved = network(&mut harness).moved.clone();
    assert_eq!(moved.len(), 1);
    assert_eq!(moved[0].0, 12);
    keep(&mut harness, "network-dragged");
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    harness.run_steps(2);
    assert!(network(&mut harness).moved.is_empty(), "one step takes the whole drag back");
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Y);
    harness.run_steps(2);
    assert_eq!(network(&mut harness).moved, moved);
    harness.get_by_label("Put nodes back").click();
    harness.run_steps(2);
    assert!(network(&mut harness).moved.is_empty());
}

/// A file as a desktop drops it.
#[derive(Debug)]
struct Dropped(PathBuf);

impl egui::DroppedFile for Dropped {
    fn path(&self) -> &std::path::Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        std::fs::read(&self.0).map_err(|e| e.to_string())
    }
}

#[test]
fn files_are_opened_by_the_menu_and_by_dropping_and_bad_ones_are_told() {
    let csv = file("friends.csv");
    std::fs::write(&csv, "source,target,weight\nann,bob,2\nbob,cat,1\ncat,ann,0.5\ndan,eve,1\n")
        .expect("written");
    let bad = file("bad.mtx");
    std::fs::write(&bad, "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 x 3\n").expect("written");
    let mesh = file("tent.obj");
    std::fs::write(
        &mesh,
        "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0.5 0.5 1\nf 1 2 5\nf 2 3 5\nf 3 4 5\nf 4 1 5\n",
    )
    .expect("written");
    let mut harness = view("attention", WIDE);
    harness.input_mut().dropped_files.push(std::sync::Arc::new(Dropped(csv)));
    settle(&mut harness);
    assert_eq!(number(&harness, "Nodes"), 5.0);
    assert_eq!(number(&harness, "Components"), 2.0);
    assert!(harness.query_by_label_contains("friends.csv").is_some());
    keep(&mut harness, "network-file");
    let commands = copied(&mut harness).expect("commands");
    for (line, mask) in commands.lines().zip(["diffusion:t=2", "walk:nodes=6", "spd:profile=exp,size=2"]) {
        let begins = line.starts_with("wgattn graph ") && line.contains("friends.csv");
        assert!(begins && line.contains(&format!("--mask {mask}")), "{line}");
    }
    let undone = harness.state().document().settings.networks.network.source.clone();
    assert!(matches!(undone, Source::File(path) if path.ends_with("friends.csv")));

    harness.state_mut().answer_dialogs_with([mesh, bad]);
    for expected in ["8", "told"] {
        harness.get_by_label("File").click();
        harness.run_steps(2);
        harness.get_by_label_contains("Open network…").click();
        settle(&mut harness);
        harness.run_steps(2);
        if expected == "told" {
            keep(&mut harness, "network-bad-file");
        } else {
            assert_eq!(figure(&harness, "Edges"), expected);
            assert!(harness.query_by_label("Places by forces").is_some(), "it has its own");
            keep(&mut harness, "network-mesh");
        }
    }
    // The view says what is wrong; the rest of the window goes on.
    assert!(harness.state().failure().is_none());
    let settings = network(&mut harness);
    settings.source = Source::Built(Shape::Ring);
    settle(&mut harness);
    assert_eq!(number(&harness, "Components"), 1.0);
    // Streets that come along, at their own places.
    let streets = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/graphs/bautzen.graphml"));
    harness.input_mut().dropped_files.push(std::sync::Arc::new(Dropped(streets)));
    settle(&mut harness);
    assert_eq!(number(&harness, "Nodes"), 350.0);
    assert!(harness.query_by_label("Places by forces").is_some());
    keep(&mut harness, "network-streets");
}

#[test]
fn sweeps_are_stepped_through_played_and_end_with_the_row() {
    let mut harness = view("tree", WIDE);
    assert!(number(&harness, "Nodes") == 300.0);
    let rounds = number(&harness, "Rounds of heavy paths");
    assert!((2.0..=9.0).contains(&rounds), "{rounds}");
    assert!(harness.query_by_label_contains(&format!("Down {rounds} of {rounds}")).is_some());
    keep(&mut harness, "tree-end");
    harness.key_press(Key::J);
    harness.run_steps(2);
    assert!(harness.query_by_label_contains(&format!("Down {} of {rounds}", rounds - 1.0)).is_some());
    for _ in 0..40 {
        harness.key_press(Key::J);
        harness.step();
    }
    assert!(harness.query_by_label_contains("Before: the query holds 1").is_some());
    keep(&mut harness, "tree-before");
    harness.get_by_label("Step").click();
    harness.run_steps(2);
    assert!(harness.query_by_label_contains(&format!("Up 1 of {rounds}")).is_some());
    keep(&mut harness, "tree-up");
    harness.get_by_label("Play").click();
    harness.run_steps(2);
    assert!(harness.query_by_label("Pause").is_some());
    for _ in 0..2000 {
        harness.step();
        if harness.query_by_label("Play").is_some() {
            break;
        }
    }
    assert!(harness.query_by_label("Play").is_some(), "it ends by itself");
    assert!(harness.query_by_label_contains(&format!("Down {rounds} of {rounds}")).is_some());
    // By levels, and over the network.
    let networks = &mut harness.state_mut().document_mut().settings.networks;
    networks.tree.by = SweepBy::Levels;
    settle(&mut harness);
    let levels = number(&harness, "Levels");
    assert!(levels > rounds, "{levels} {rounds}");
    for _ in 0..8 {
        harness.key_press(Key::J);
        harness.step();
    }
    keep(&mut harness, "tree-levels");
    harness.state_mut().document_mut().settings.networks.tree.of = TreeOf::Network;
    settle(&mut harness);
    assert_eq!(number(&harness, "Nodes"), 120.0);
    keep(&mut harness, "tree-network");
    harness.state_mut().document_mut().settings.networks.network.source = Source::Built(Shape::Random);
    settle(&mut harness);
    assert!(number(&harness, "Trees") > 1.0);
    keep(&mut harness, "tree-forest");
}

/// Middle of the left picture.
const LEFT: Pos2 = pos2(546.0, 400.0);

#[test]
fn walls_are_painted_links_are_drawn_and_undo_takes_them_back() {
    let mut harness = view("diffusion", WIDE);
    let reached = figure(&harness, "Reached");
    keep(&mut harness, "diffusion-open");
    harness.get_by_label("Cut").click();
    harness.run_steps(2);
    drag(&mut harness, LEFT + vec2(60.0, -160.0), LEFT + vec2(60.0, 160.0));
    settle(&mut harness);
    assert!(!harness.state().document().cuts.obstacles.is_empty(), "something is painted");
    keep(&mut harness, "diffusion-wall");
    let walled = figure(&harness, "Reached");
    assert_ne!(walled, reached);
    harness.get_by_label("Link").click();
    harness.run_steps(2);
    drag(&mut harness, LEFT + vec2(-80.0, 20.0), LEFT + vec2(160.0, 40.0));
    settle(&mut harness);
    assert_eq!(harness.state().document().cuts.links.len(), 1);
    keep(&mut harness, "diffusion-link");
    // Two clicks draw one, too, and Esc gives a begun one up.
    click(&mut harness, LEFT + vec2(-60.0, 80.0), PointerButton::Primary);
    harness.run_steps(2);
    assert!(harness.query_by_label_contains("Now click where the link ends").is_some());
    harness.key_press(Key::Escape);
    harness.run_steps(2);
    click(&mut harness, LEFT + vec2(-60.0, 80.0), PointerButton::Primary);
    click(&mut harness, LEFT + vec2(150.0, 90.0), PointerButton::Primary);
    settle(&mut harness);
    assert_eq!(harness.state().document().cuts.links.len(), 2);
    for expected in [1, 0] {
        harness.key_press_modifiers(Modifiers::COMMAND, Key::Z);
        settle(&mut harness);
        assert_eq!(harness.state().document().cuts.links.len(), expected);
    }
    assert_eq!(figure(&harness, "Reached"), walled);
    harness.get_by_label("Clear").click();
    settle(&mut harness);
    assert!(harness.state().document().cuts.is_empty());
    assert_eq!(figure(&harness, "Reached"), reached);
    assert!(harness.state().failure().is_none());
}

#[test]
fn a_query_on_an_obstacle_is_told_and_edges_are_seen_from_near() {
    let mut harness = view("diffusion", WIDE);
    let photo = glam::UVec2::new(160, 120);
    let all = (glam::DVec2::ZERO, photo.as_dvec2());
    let cuts = &mut harness.state_mut().document_mut().cuts;
    cuts.obstacles.rectangle(photo, all.0, all.1, wgattn::explorer::mask::Paint::Hidden);
    settle(&mut harness);
    assert!(harness.query_by_label_contains("The query lies on an obstacle").is_some());
    keep(&mut harness, "diffusion-obstacle");
    harness.state_mut().document_mut().cuts = Default::default();
    for corners in [false, true] {
        harness.state_mut().document_mut().settings.networks.diffusion.corners = corners;
        harness.key_press(Key::Plus);
        settle(&mut harness);
    }
    keep(&mut harness, "diffusion-edges");
}

#[test]
fn all_of_it_survives_a_session_and_bad_numbers_are_refused_by_name() {
    let path = file("networks.json");
    let mut session = Session::default();
    let networks = &mut session.document.settings.networks;
    networks.network.source = Source::Built(Shape::Hypercube);
    networks.network.moved = vec![(3, [0.5, -1.25])];
    networks.network.laplacian = Laplacian::RandomWalk;
    networks.tree.by = SweepBy::Levels;
    networks.diffusion.time = 123.5;
    session.document.cuts.links = vec![[[4, 5], [60, 61]]];
    let photo = glam::UVec2::new(96, 72);
    session.document.cuts.obstacles.stroke(
        photo,
        glam::DVec2::new(9.0, 9.0),
        glam::DVec2::new(30.0, 30.0),
        4.0,
        wgattn::explorer::mask::Paint::Hidden,
    );
    session.open_views = vec!["diffusion".into()];
    session.source = Some(drawn("session-networks.png", 96, 72));
    session.save(&path).expect("saved");
    assert_eq!(Session::load(&path).expect("read"), session);
    let mut harness = open(Options { session: Some(path.clone()), ..Options::default() }, WIDE);
    settle(&mut harness);
    assert_eq!(harness.state().document().settings.networks, session.document.settings.networks);
    assert_eq!(harness.state().document().cuts, session.document.cuts);
    let text = std::fs::read_to_string(&path).expect("written");
    for (from, to, field) in [
        ("\"time\": 123.5", "\"time\": -1.0", "networks.diffusion.time"),
        ("\"walk\": 6", "\"walk\": 0", "networks.network.walk"),
    ] {
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replace(from, to)).expect("written");
        let error = Session::load(&path).expect_err("it cannot be").to_string();
        assert!(error.contains(field), "{error}");
    }
    // Sessions from before there were networks.
    std::fs::write(&path, "{\"version\":1,\"document\":{\"settings\":{}}}").expect("written");
    assert!(Session::load(&path).expect("still read").document.cuts.is_empty());
}

#[test]
fn sliders_of_networks_ask_the_engine_nothing() {
    let mut harness = view("network", WIDE);
    let request = harness.state().snapshot().expect("a map").request;
    for time in [3.0, 4.0, 5.0] {
        network(&mut harness).time = time;
        settle(&mut harness);
    }
    assert_eq!(harness.state().snapshot().map(|s| s.request), Some(request));
}

/// The row in sight, and that of the f64 oracle.
fn rows(harness: &Harness<'_, App>) -> (Vec<f64>, Vec<f64>, bool) {
    let diffusion = harness.state().snapshot().and_then(|s| s.diffusion.clone()).expect("a diffusion");
    let found = diffusion.as_ref().as_ref().expect("it is found");
    let (network, settings) = (found.network.as_ref().clone(), &found.settings);
    let mask =
        Diffusion::heat(network, settings.laplacian, settings.time, settings.tolerance).expect("a mask");
    let oracle = mask.row(found.query).expect("a row");
    (found.row.iter().map(|w| f64::from(*w)).collect(), oracle, found.stencil)
}

#[test]
fn every_device_finds_the_row_of_the_oracle_with_and_without_links() {
    let mut harness = view("diffusion", WIDE);
    let mut devices = vec![Device::Window, Device::Named("cpu".into())];
    devices.extend((0..wgattn::backend::wgpu::adapters().len()).map(|i| Device::Named(i.to_string())));
    for (device, (name, laplacian)) in devices.iter().flat_map(|d| Laplacian::ALL.map(|l| (d, l))) {
        for links in [vec![], vec![[[8, 8], [150, 110]]]] {
            let linked = !links.is_empty();
            let document = harness.state_mut().document_mut();
            document.settings.device = device.clone();
            document.settings.networks.diffusion.laplacian = laplacian;
            document.settings.networks.diffusion.tolerance = 1e-6;
            document.cuts.links = links;
            settle(&mut harness);
            assert!(harness.state().failure().is_none(), "{:?}", harness.state().failure());
            let (row, oracle, stencil) = rows(&harness);
            assert_eq!(stencil, !linked);
            let most = oracle.iter().copied().fold(0.0, f64::max);
            let worst = row.iter().zip(&oracle).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            // The tolerance is of the one that heat begins as; f32 adds a few rounding errors per term.
            assert!(worst < 1e-5, "{device:?} {name} linked {linked}: {worst:.1e} of {most:.1e}");
        }
    }
}

/// Runs a copied line, with a file for the numbers behind it, and reads them.
#[cfg(unix)]
fn ran(command: &str, name: &str) -> Vec<f64> {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_wgattn")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("a path"));
    let numbers = file(&format!("{name}.npy"));
    let line = format!("{command} --raw '{}' --out '{}'", numbers.display(), file("copied.png").display());
    let out =
        std::process::Command::new("sh").args(["-c", &line]).env("PATH", path).output().expect("a shell");
    assert!(out.status.success(), "{line}\n{}", String::from_utf8_lossy(&out.stderr));
    let arrays = wgattn::arrays::read(&numbers).expect("an array");
    match &arrays[wgattn::arrays::NPY_NAME].data {
        wgattn::arrays::ArrayData::F32(row) => row.iter().map(|w| f64::from(*w)).collect(),
        other => panic!("{}", other.dtype()),
    }
}

#[cfg(unix)]
#[test]
fn the_copied_command_gives_the_row_in_sight() {
    let mut harness = view("diffusion", WIDE);
    let mut devices = vec!["cpu".to_string()];
    devices.extend((0..wgattn::backend::wgpu::adapters().len()).map(|i| i.to_string()));
    for (device, (name, laplacian)) in devices.iter().flat_map(|d| Laplacian::ALL.map(|l| (d, l))) {
        let document = harness.state_mut().document_mut();
        document.settings.device = Device::Named(device.clone());
        document.query = [100, 31];
        document.settings.networks.diffusion.laplacian = laplacian;
        document.settings.networks.diffusion.time = 12.3;
        settle(&mut harness);
        let command = copied(&mut harness).unwrap_or_else(|| panic!("{:?}", harness.state().news()));
        assert!(command.starts_with("wgattn mask diffusion:t=12.3"), "{command}");
        let (row, ..) = rows(&harness);
        let said = ran(&command, "diffusion-row");
        let most = row.iter().copied().fold(0.0, f64::max);
        let worst = row.iter().zip(&said).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(said.len() == row.len() && worst <= 1e-5 * most, "{device} {name}: {worst:e} of {most}");
    }
    assert!(
        harness.state().news().is_some_and(|news| news.contains("mask alone")),
        "what is not in it is told"
    );
    // Painted obstacles have no words there.
    let photo = glam::UVec2::new(160, 120);
    let cuts = &mut harness.state_mut().document_mut().cuts;
    cuts.obstacles.rectangle(
        photo,
        glam::DVec2::ZERO,
        glam::DVec2::splat(30.0),
        wgattn::explorer::mask::Paint::Hidden,
    );
    settle(&mut harness);
    assert_eq!(copied(&mut harness), None);
    assert!(harness.state().news().is_some_and(|news| news.contains("no cuts and links")));
    keep(&mut harness, "diffusion-not-copied");
}

#[cfg(unix)]
#[test]
fn views_side_by_side_copy_a_line_each() {
    let views = ["attention", "diffusion", "tree", "compare"].map(String::from).to_vec();
    let mut harness = open(Options { sources: Vec::new(), views, ..Options::default() }, WIDE);
    settle(&mut harness);
    let text = copied(&mut harness).expect("commands");
    let lines: Vec<&str> = text.lines().collect();
    let starts = ["wgattn map cat ", "wgattn mask diffusion:t=60 cat ", "wgattn mask tree:rate=0.06 cat "];
    assert_eq!(lines.len(), starts.len(), "{text}");
    for start in starts {
        assert!(lines.iter().any(|line| line.starts_with(start)), "{start}: {text}");
    }
    let row = ran(lines.iter().find(|line| line.contains("tree:")).expect("a tree"), "tree-row");
    let most = row.iter().copied().fold(0.0, f64::max);
    assert!((most - 1.0).abs() < 1e-6, "the token itself: {most}");
    // A built-in network has no command; the others still have theirs.
    harness.state_mut().document_mut().settings.networks.tree.of = TreeOf::Network;
    settle(&mut harness);
    assert_eq!(copied(&mut harness).expect("commands").lines().count(), 2);
    assert!(harness.state().news().is_some_and(|news| news.contains("No command for the rest")));
    keep(&mut harness, "commands-side-by-side");
}

#[test]
fn it_flows_over_a_moving_picture() {
    let options =
        Options { sources: vec!["synthetic".into()], views: vec!["diffusion".into()], ..Options::default() };
    let mut harness = open(options, WIDE);
    let start = std::time::Instant::now();
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 4 {
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "{seen:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
        harness.step();
        if let Some(Ok(found)) = harness.state().snapshot().and_then(|s| s.diffusion.as_deref()) {
            seen.insert(found.number);
            let sum: f64 = found.row.iter().map(|w| f64::from(*w)).sum();
            assert!((sum - 1.0).abs() < 0.05, "{sum}");
        }
    }
    keep(&mut harness, "diffusion-live");
}

/// Prints how long rows take. No assertion on times: machines differ.
#[test]
fn times_of_rows() {
    let cat = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("assets/chelsea.png");
    for id in ["diffusion", "tree"] {
        let sources = vec![cat.display().to_string()];
        let mut harness = open(Options { sources, views: vec![id.into()], ..Options::default() }, WIDE);
        harness.state_mut().document_mut().query = [214, 96];
        settle(&mut harness);
        keep(&mut harness, &format!("{id}-cat"));
        let mut times = Vec::new();
        for i in 0..10 {
            let networks = &mut harness.state_mut().document_mut().settings.networks;
            networks.diffusion.time = 60.0 + 10.0 * f64::from(i);
            networks.tree.rate = 0.1 + 0.02 * f64::from(i);
            let from = std::time::Instant::now();
            settle(&mut harness);
            times.push(from.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        println!("{id}: a slider's row in sight after {:.0} ms (median)", 1e3 * times[5]);
        if id == "diffusion" {
            println!("row: {}, K = {}", figure(&harness, "Time"), figure(&harness, "Chebyshev terms K"));
            harness.ctx.set_theme(egui::Theme::Light);
            keep(&mut harness, "diffusion-cat-light");
        }
    }
}
