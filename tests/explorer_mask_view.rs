//! The mask topology view, driven by the mouse: paint, erase, link, look. Pictures are drawn on the software device.
//!
//! With `WGATTN_SHOTS=<folder>` every picture that is drawn is kept there.

use eframe::egui::{self, Key, Modifiers, Pos2, Theme, Vec2, pos2, vec2};
use eframe::egui_wgpu::RendererOptions;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use egui_kittest::wgpu::{WgpuTestRenderer, create_render_state, default_wgpu_setup};
use glam::{DVec2, UVec2, dvec2, uvec2};
use wgattn::explorer::canvas::Canvas;
use wgattn::explorer::mask::{HIDDEN, Link, MaskDocument, Paint};
use wgattn::explorer::networks::Cuts;
use wgattn::explorer::settings::Settings;
use wgattn::explorer::textures::Textures;
use wgattn::explorer::views::{View, ViewContext, views};
use wgattn::explorer::widgets::formula_layout;
use wgattn::vision::image::Photo;

/// What the window would hold.
struct State {
    view: Box<dyn View>,
    settings: Settings,
    query: UVec2,
    canvas: Canvas,
    mask: MaskDocument,
    cuts: Cuts,
    textures: Textures,
}

impl State {
    /// As the shell lays it out: the view's controls at the left, the view in the rest.
    fn ui(&mut self, ui: &mut egui::Ui) {
        let mut context = ViewContext {
            settings: &mut self.settings,
            query: &mut self.query,
            canvas: &mut self.canvas,
            mask: &mut self.mask,
            cuts: &mut self.cuts,
            photo: None,
            snapshot: None,
            textures: &mut self.textures,
        };
        egui::Panel::left("controls").default_size(290.0).show(ui, |ui| self.view.controls(ui, &mut context));
        egui::CentralPanel::default().show(ui, |ui| self.view.ui(ui, &mut context));
    }
}

struct Window {
    harness: Harness<'static, State>,
    /// Screen position of the photograph's corner, and points per pixel.
    corner: Pos2,
    scale: f32,
    photo: UVec2,
}

fn window(size: Vec2, pixels: f32, theme: Theme, photo: Option<&str>) -> Harness<'static, State> {
    let state = create_render_state(default_wgpu_setup(), RendererOptions::PREDICTABLE);
    let mut textures = Textures::new(state.clone());
    let path = |name| format!("{}/assets/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut query = UVec2::ZERO;
    if let Some(name) = photo {
        let photo = Photo::open(path(name)).expect("a picture of ours");
        query = photo.size() / 3;
        textures.set_photo(&photo);
    }
    let view =
        views().into_iter().find(|view| view.id() == "mask-topology").expect("the view is in the list");
    let settings = Settings::default();
    let (canvas, mask) = (Canvas::default(), MaskDocument::default());
    let mut harness = Harness::builder()
        .with_size(size)
        .with_pixels_per_point(pixels)
        .with_theme(theme)
        .with_render_cursor(false)
        .with_max_steps(8)
        .renderer(WgpuTestRenderer::from_render_state(state))
        .build_ui_state(
            |ui, state: &mut State| state.ui(ui),
            State { view, settings, query, canvas, mask, cuts: Cuts::default(), textures },
        );
    harness.run();
    harness
}

impl Window {
    fn open(pixels: f32, theme: Theme) -> Self {
        let mut harness = window(vec2(1280.0, 800.0), pixels, theme, Some("chelsea.png"));
        // Where the photograph lies is found as a user would: by pointing at it.
        let mut under = |at: Pos2| {
            harness.hover_at(at);
            harness.run();
            harness.state().canvas.hover.expect("the pointer is on the photograph").as_vec2()
        };
        let (a, b) = (pos2(400.0, 350.0), pos2(800.0, 450.0));
        let (at_a, at_b) = (under(a), under(b));
        let scale = (b.x - a.x) / (at_b.x - at_a.x);
        let corner = a - vec2(at_a.x + 0.5, at_a.y + 0.5) * scale;
        let photo = harness.state().textures.photo().expect("it was uploaded").size;
        Self { harness, corner, scale, photo }
    }

    fn at(&self, place: DVec2) -> Pos2 {
        self.corner + vec2(place.x as f32, place.y as f32) * self.scale
    }

    fn press(&mut self, label: &str) {
        self.harness.get_by_label(label).click();
        self.harness.run();
    }

    fn drag(&mut self, places: &[DVec2]) {
        let places: Vec<Pos2> = places.iter().map(|place| self.at(*place)).collect();
        self.harness.hover_at(places[0]);
        self.harness.step();
        self.harness.drag_at(places[0]);
        self.harness.step();
        for place in &places {
            self.harness.hover_at(*place);
            self.harness.step();
        }
        self.harness.drop_at(places[places.len() - 1]);
        self.harness.run();
    }

    fn click(&mut self, place: DVec2) {
        self.drag(&[place]);
    }

    fn mask(&self) -> &MaskDocument {
        &self.harness.state().mask
    }

    fn label(&self, place: DVec2) -> u8 {
        self.mask().label_at(self.photo, place)
    }

    /// Two regions, left and right, and a hidden corner.
    fn paint_a_scene(&mut self) {
        let photo = self.photo;
        let mask = &mut self.harness.state_mut().mask;
        mask.stroke(photo, dvec2(110.0, 120.0), dvec2(150.0, 200.0), 60.0, Paint::Region(1));
        mask.stroke(photo, dvec2(310.0, 100.0), dvec2(340.0, 210.0), 55.0, Paint::Region(2));
        mask.stroke(photo, dvec2(20.0, 290.0), dvec2(200.0, 280.0), 35.0, Paint::Hidden);
        self.harness.run();
    }

    fn shot(&mut self, name: &str) -> image::RgbaImage {
        shot(&mut self.harness, name)
    }
}

fn shot(harness: &mut Harness<'static, State>, name: &str) -> image::RgbaImage {
    let picture = harness.render().expect("the software device draws");
    if let Ok(folder) = std::env::var("WGATTN_SHOTS") {
        picture.save(format!("{folder}/mask-{name}.png")).expect("the folder takes pictures");
    }
    picture
}

const LEFT: DVec2 = dvec2(120.0, 150.0);
const RIGHT: DVec2 = dvec2(330.0, 150.0);

#[test]
fn click_with_the_query_tool_chooses_the_query() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.click(dvec2(200.0, 100.0));
    let query = window.harness.state().query.as_dvec2();
    assert!(query.distance(dvec2(200.0, 100.0)) < 3.0, "{query}");
    assert!(window.mask().is_empty());
    window.shot("empty-dark");
}

#[test]
fn brush_paints_along_the_whole_drag() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.press("Brush");
    window.drag(&[LEFT, dvec2(200.0, 60.0), RIGHT]);
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        assert_eq!(window.label(LEFT.lerp(dvec2(200.0, 60.0), share)), HIDDEN);
        assert_eq!(window.label(dvec2(200.0, 60.0).lerp(RIGHT, share)), HIDDEN);
    }
    assert_eq!(window.label(dvec2(220.0, 280.0)), 0);
    let query = window.harness.state().query;
    assert_eq!(query, window.photo / 3, "painting does not choose the query");
}

#[test]
fn moves_within_one_frame_are_followed() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.press("Brush");
    let corners = [LEFT, dvec2(120.0, 40.0), dvec2(330.0, 40.0), RIGHT].map(|place| window.at(place));
    window.harness.hover_at(corners[0]);
    window.harness.step();
    window.harness.drag_at(corners[0]);
    window.harness.step();
    let moved = corners[1..].iter().map(|at| egui::Event::PointerMoved(*at));
    window.harness.input_mut().events.extend(moved);
    window.harness.step();
    window.harness.drop_at(corners[3]);
    window.harness.run();
    assert_eq!(window.label(dvec2(225.0, 40.0)), HIDDEN, "the way round");
    assert_eq!(window.label(dvec2(225.0, 150.0)), 0, "not the chord");
}

#[test]
fn swatch_takes_up_the_brush_and_eraser_takes_away() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.press("Region 3");
    window.drag(&[LEFT, RIGHT]);
    assert_eq!(window.label(dvec2(220.0, 150.0)), 3);
    window.press("Eraser");
    window.drag(&[dvec2(220.0, 100.0), dvec2(220.0, 200.0)]);
    assert_eq!(window.label(dvec2(220.0, 150.0)), 0);
    assert_eq!((window.label(LEFT), window.label(RIGHT)), (3, 3));
}

#[test]
fn bracket_keys_change_the_brush() {
    let width = |window: &Window| {
        let cells = window.mask().cells().iter().filter(|label| **label != 0).count();
        (cells as f64 / std::f64::consts::PI).sqrt() * 2.0 * f64::from(window.photo.x) / 512.0
    };
    let mut window = Window::open(1.0, Theme::Dark);
    window.press("Brush");
    window.click(LEFT);
    let before = width(&window);
    window.press("Clear");
    for _ in 0..3 {
        window.harness.key_press(Key::CloseBracket);
        window.harness.run();
    }
    window.click(LEFT);
    let after = width(&window);
    assert!((after / before - 1.25f64.powi(3)).abs() < 0.12, "{before} then {after} pixels wide");
    window.press("Clear");
    for _ in 0..30 {
        window.harness.key_press(Key::OpenBracket);
        window.harness.step();
    }
    window.click(LEFT);
    assert!(width(&window) < 3.0, "{} pixels wide", width(&window));
}

#[test]
fn space_moves_the_picture_instead_of_painting() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.press("Brush");
    window.harness.key_down(Key::Space);
    window.drag(&[LEFT, RIGHT]);
    window.harness.key_up(Key::Space);
    window.harness.run();
    assert!(window.mask().is_empty() && !window.harness.state().canvas.fits());
}

#[test]
fn rectangle_and_fill() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.press("Region 2");
    window.press("Rectangle");
    window.drag(&[dvec2(50.0, 60.0), dvec2(150.0, 130.0), dvec2(210.0, 180.0)]);
    assert_eq!(window.label(dvec2(52.0, 62.0)), 2);
    assert_eq!(window.label(dvec2(208.0, 178.0)), 2);
    assert_eq!(window.label(dvec2(214.0, 184.0)), 0);
    window.press("Region 4");
    window.press("Fill");
    window.click(dvec2(300.0, 250.0));
    assert_eq!((window.label(dvec2(5.0, 5.0)), window.label(LEFT)), (4, 2));
    window.press("Hidden");
    window.click(LEFT);
    assert_eq!(window.label(LEFT), HIDDEN | 2);
    window.shot("rectangle-fill-dark");
}

#[test]
fn escape_gives_up_a_rectangle() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.press("Rectangle");
    let (from, to) = (window.at(LEFT), window.at(RIGHT));
    window.harness.drag_at(from);
    window.harness.step();
    window.harness.hover_at(to);
    window.harness.step();
    window.harness.key_press(Key::Escape);
    window.harness.step();
    window.harness.drop_at(to);
    window.harness.run();
    assert!(window.mask().is_empty());
}

#[test]
fn links_are_drawn_selected_and_deleted() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.paint_a_scene();
    window.press("Link");
    window.drag(&[LEFT, dvec2(220.0, 180.0), RIGHT]);
    assert_eq!(window.mask().links(), [Link { from: 1, to: 2, mutual: true }]);
    window.press("One way");
    window.drag(&[RIGHT, dvec2(220.0, 40.0), dvec2(220.0, 30.0)]);
    assert_eq!(window.mask().links().len(), 2);
    assert!(window.mask().links().contains(&Link { from: 2, to: 0, mutual: false }));
    // The new link is selected.
    window.harness.key_press(Key::Delete);
    window.harness.run();
    assert_eq!(window.mask().links(), [Link { from: 1, to: 2, mutual: true }]);
    // A click beside every link selects none; one on the curve, which is bent to one side, selects it.
    window.click(dvec2(40.0, 40.0));
    window.harness.key_press(Key::Delete);
    window.harness.run();
    assert_eq!(window.mask().links().len(), 1);
    let places = window.mask().region_places();
    let handle = |region| {
        let place = places.iter().find(|place| place.region == region).expect("it is painted");
        place.place * window.photo.as_dvec2()
    };
    let (a, b) = (handle(1), handle(2));
    let bend = -(b - a).perp() * 0.08;
    window.click((a + b) / 2.0 + bend);
    window.click((a + b) / 2.0 - bend);
    window.harness.key_press_modifiers(Modifiers::NONE, Key::Delete);
    window.harness.run();
    let after_wrong_side = window.mask().links().len();
    window.click((a + b) / 2.0 + bend);
    window.harness.key_press(Key::Delete);
    window.harness.run();
    assert_eq!((after_wrong_side, window.mask().links().len()), (1, 0));
}

#[test]
fn a_drag_within_one_region_links_nothing() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.paint_a_scene();
    window.press("Link");
    window.drag(&[LEFT, dvec2(220.0, 180.0), LEFT + 8.0]);
    assert!(window.mask().links().is_empty());
}

#[test]
fn blocks_of_the_table_open_and_close() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.paint_a_scene();
    window.press("region 1 sees region 2");
    assert_eq!(window.mask().links(), [Link { from: 1, to: 2, mutual: false }]);
    window.press("the unpainted region 0 sees region 1");
    assert!(window.mask().sees(0, 1) && !window.mask().sees(1, 0));
    window.press("region 1 sees region 2");
    assert!(!window.mask().sees(1, 2));
}

#[test]
fn links_can_be_turned_and_removed_in_the_list() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.paint_a_scene();
    window.harness.state_mut().mask.link(Link { from: 1, to: 2, mutual: true });
    window.harness.run();
    window.press("Direction of the link 1 to 2");
    window.press("2 sees 1");
    assert_eq!(window.mask().links(), [Link { from: 2, to: 1, mutual: false }]);
    window.press("Remove");
    assert!(window.mask().links().is_empty());
}

#[test]
fn invert_and_clear() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.paint_a_scene();
    let hidden = dvec2(100.0, 285.0);
    window.press("Invert");
    assert_eq!((window.label(hidden), window.label(LEFT)), (0, HIDDEN | 1));
    window.press("Clear");
    assert_eq!(window.mask(), &MaskDocument::default());
}

#[test]
fn footer_counts_what_the_query_sees() {
    let mut window = Window::open(1.0, Theme::Dark);
    window.harness.get_by_label_contains("Every query sees all");
    window.paint_a_scene();
    window.click(LEFT);
    window.harness.get_by_label_contains("in region 1 sees");
    window.press("Fill");
    window.press("Hidden");
    window.press("Fill");
    window.click(LEFT);
    window.harness.get_by_label_contains("sees 0 of");
}

#[test]
fn regions_are_drawn_in_their_colours_in_both_themes() {
    for (theme, name) in [(Theme::Dark, "dark"), (Theme::Light, "light")] {
        for scale in [1.0, 2.0] {
            let mut window = Window::open(scale, theme);
            let before = window.shot(&format!("empty-{name}-{scale}"));
            window.paint_a_scene();
            window.harness.state_mut().query = uvec2(130, 180);
            window.press("Link");
            window.drag(&[LEFT, dvec2(220.0, 180.0), RIGHT]);
            window.press("One way");
            window.drag(&[dvec2(225.0, 30.0), dvec2(220.0, 180.0), RIGHT]);
            window.press("Brush");
            let brush = window.at(dvec2(400.0, 260.0));
            window.harness.hover_at(brush);
            window.harness.run();
            let after = window.shot(&format!("regions-{name}-{scale}"));
            // Region 1 is orange: red gains on blue.
            let place = window.at(dvec2(95.0, 105.0)) * scale;
            let redness = |picture: &image::RgbaImage| {
                let [r, _, b, _] = picture.get_pixel(place.x as u32, place.y as u32).0;
                i32::from(r) - i32::from(b)
            };
            assert!(redness(&after) > redness(&before) + 20, "{} then {}", redness(&before), redness(&after));
        }
    }
}

#[test]
fn all_regions_and_small_windows_have_room() {
    for (theme, name) in [(Theme::Dark, "dark"), (Theme::Light, "light")] {
        let mut window = Window::open(1.0, theme);
        let photo = window.photo;
        for region in 1..=8u8 {
            let column = f64::from((region - 1) % 4);
            let at = dvec2(60.0 + 110.0 * column, if region < 5 { 80.0 } else { 220.0 });
            window.harness.state_mut().mask.stroke(photo, at, at, 42.0, Paint::Region(region));
        }
        for (from, to, mutual) in [(1, 2, true), (2, 6, false), (8, 4, false), (3, 7, true)] {
            window.harness.state_mut().mask.link(Link { from, to, mutual });
        }
        window.harness.state_mut().mask.rectangle(
            photo,
            dvec2(0.0, 90.0),
            dvec2(110.0, 200.0),
            Paint::Hidden,
        );
        window.harness.run();
        window.shot(&format!("all-{name}"));
        for (width, height) in [(700.0, 500.0), (560.0, 900.0), (900.0, 1300.0), (300.0, 200.0)] {
            window.harness.set_size(vec2(width, height));
            window.harness.run();
            window.shot(&format!("all-{name}-{width}x{height}"));
        }
    }
}

#[test]
fn without_a_picture_it_says_what_to_do() {
    let mut harness = window(vec2(900.0, 600.0), 1.0, Theme::Light, None);
    shot(&mut harness, "no-picture");
}

#[test]
fn tour_can_be_written_with_the_fonts_there_are() {
    let mut harness = window(vec2(900.0, 600.0), 1.0, Theme::Dark, None);
    wgattn::explorer::fonts::install(&harness.ctx);
    harness.run();
    let has = |text: &str| {
        let font = egui::FontId::proportional(14.0);
        harness.ctx.fonts_mut(|fonts| fonts.has_glyphs(&font, text))
    };
    for page in harness.state().view.tour() {
        let formula = formula_layout(page.formula, 14.0, egui::Color32::WHITE).text;
        for text in [page.title, &formula, page.text] {
            assert!(has(text), "{text}");
        }
    }
}

#[test]
fn hatch_and_shade_of_hidden_tokens_are_of_one_shape() {
    for (theme, name) in [(Theme::Dark, "dark"), (Theme::Light, "light")] {
        for scale in [1.0, 2.0] {
            let mut window = Window::open(scale, theme);
            let before = window.shot(&format!("plain-{name}-{scale}"));
            // Tokens are 8 pixels wide: those from 96 on have their middle in it, and stick out by 3.
            let photo = window.photo;
            let mask = &mut window.harness.state_mut().mask;
            mask.rectangle(photo, dvec2(99.0, 61.0), dvec2(205.0, 150.0), Paint::Hidden);
            window.harness.run();
            let after = window.shot(&format!("hidden-{name}-{scale}"));
            let changed = |from: f64, to: f64| {
                let (low, high) = (window.at(dvec2(from, 75.0)) * scale, window.at(dvec2(to, 140.0)) * scale);
                let places = (low.y as u32..high.y as u32)
                    .flat_map(|y| (low.x as u32..high.x as u32).map(move |x| (x, y)));
                let differences = places.map(|(x, y)| {
                    let [r, g, b, _] = after.get_pixel(x, y).0.map(i32::from);
                    let [p, q, s, _] = before.get_pixel(x, y).0.map(i32::from);
                    (r - p) + (g - q) + (b - s)
                });
                let differences: Vec<i32> = differences.collect();
                let (least, most) = (differences.iter().min(), differences.iter().max());
                (least.copied().unwrap_or(0), most.copied().unwrap_or(0))
            };
            let spread = |(least, most): (i32, i32)| most - least;
            assert!(
                spread(changed(96.8, 98.2)) > 60,
                "the shade is hatched to its edge: {:?}",
                changed(96.8, 98.2)
            );
            assert_eq!(changed(88.0, 94.8), (0, 0), "and nothing sticks out");
        }
    }
}
