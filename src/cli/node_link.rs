//! The picture of a network: its nodes as dots, its edges as lines between them, a mask's row as the dots' colours.
//!
//! Places are the file's own where it has some, and found by forces otherwise. Places in space are turned a little so that depth shows, and
//! what is near is drawn over what is far. Strong edges are dark, weak ones pale; one-way edges have heads.

use super::Failure;
use crate::topology::read::Loaded;
use crate::topology::{Network, layout};
use crate::vision::letters;
use crate::vision::overlay::{OverlayOptions, ValueScale, with_bar};
use image::{Rgb, RgbImage};
use tiny_skia::{Color, FillRule, LineCap, Paint, Path, PathBuilder, Pixmap, Stroke, Transform};

/// Paper around the drawing, as a share of its side.
const MARGIN: f32 = 0.06;
/// Most nodes that are named in the picture.
const NAMED: usize = 64;
/// Longest name.
const LETTERS: usize = 14;
/// Nodes up to which places are found with all steps, and the fewest steps.
const FULL_STEPS: usize = 10_000;
const FEWEST_STEPS: usize = 8;
/// Nodes without a mask.
const PLAIN: [u8; 3] = [58, 96, 130];
const INK: [u8; 3] = [20, 20, 20];

/// A mask's row over a network.
pub(super) struct Row<'a> {
    /// The node that looks.
    pub(super) node: u32,
    /// `[n]` its weights.
    pub(super) weights: &'a [f32],
}

/// Draws a network `size` pixels wide and high, with a bar of colours beside it where a row is given; notices say what is not finite, what is left
/// out, and which letters the fonts lack.
///
/// Errors: a size that no picture has.
pub(super) fn draw(
    loaded: &Loaded,
    row: Option<&Row<'_>>,
    size: u32,
    notices: &mut Vec<String>,
) -> Result<RgbImage, Failure> {
    let network = &loaded.network;
    let n = network.nodes();
    let mut canvas = Pixmap::new(size, size)
        .ok_or_else(|| Failure(format!("--size {size}: expected at least 1 pixel")))?;
    canvas.fill(Color::WHITE);
    let places = on_paper(&seen_places(loaded), size as f32);
    // Dots cover about a tenth of the paper, within what an eye can tell apart.
    let radius = (size as f32 * (0.03 / n.max(1) as f32).sqrt()).min(0.016 * size as f32).max(0.8);
    let line = (radius / 5.0).min(0.0025 * size as f32).max(0.4);
    edges(&mut canvas, network, &places, line, radius);

    let scale = row.map(|row| ValueScale::choose(row.weights, &OverlayOptions::default(), notices));
    let colour = |i: usize| match (&scale, row) {
        (Some(scale), Some(row)) => scale.colour(f64::from(row.weights[i])),
        _ => PLAIN,
    };
    // The query last, so that nothing hides it.
    let query = row.map(|row| row.node as usize);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| {
        (query == Some(*a), places[*a].depth)
            .partial_cmp(&(query == Some(*b), places[*b].depth))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    for i in order {
        let Place { x, y, .. } = places[i];
        if query == Some(i) {
            dot(&mut canvas, (x, y), 1.9 * radius + 1.5, INK);
            dot(&mut canvas, (x, y), 1.9 * radius, [255; 3]);
        }
        if radius > 2.0 {
            dot(&mut canvas, (x, y), radius + 0.14 * radius.min(8.0), INK);
        }
        dot(&mut canvas, (x, y), radius, colour(i));
    }

    let pixels = canvas.pixels().iter().flat_map(|p| [p.red(), p.green(), p.blue()]).collect();
    let mut picture = RgbImage::from_raw(size, size, pixels)
        .ok_or_else(|| Failure("picture: pixels and size disagree; report this".into()))?;
    if n <= NAMED {
        names(&mut picture, loaded, &places, radius, notices);
    }
    Ok(match scale {
        Some(scale) => {
            let gaps = row.is_some_and(|row| row.weights.iter().any(|w| !w.is_finite()));
            with_bar(&picture, &scale, gaps)
        }
        None => picture,
    })
}

/// A node on the paper; larger depth is nearer.
#[derive(Clone, Copy)]
struct Place {
    x: f32,
    y: f32,
    depth: f32,
}

/// Places as they are looked at, y downwards.
fn seen_places(loaded: &Loaded) -> Vec<Place> {
    let n = loaded.network.nodes();
    if loaded.places.len() != n || loaded.places.is_empty() {
        // Large networks get fewer steps: each costs n log n, and their beginning is most of what is seen.
        let steps = (layout::USUAL_STEPS * FULL_STEPS / n.max(1)).clamp(FEWEST_STEPS, layout::USUAL_STEPS);
        let places = layout::by_forces(&loaded.network, steps, || true);
        return places.into_iter().map(|[x, y]| Place { x, y, depth: 0.0 }).collect();
    }
    if loaded.dimensions < 3 {
        return loaded.places.iter().map(|[x, y, _]| Place { x: *x, y: -*y, depth: 0.0 }).collect();
    }
    // A quarter turn's third to the side and a sixth from above, as solids are usually drawn.
    let ((s, c), (t, d)) = (0.5_f32.sin_cos(), 0.35_f32.sin_cos());
    let turned = |[x, y, z]: &[f32; 3]| {
        let (side, away) = (c * x + s * z, c * z - s * x);
        Place { x: side, y: -(d * y - t * away), depth: t * y + d * away }
    };
    loaded.places.iter().map(turned).collect()
}

/// Scales places to the paper, alike in both directions.
fn on_paper(places: &[Place], size: f32) -> Vec<Place> {
    let span = |of: fn(&Place) -> f32| {
        places.iter().map(of).fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)))
    };
    let ((left, right), (top, bottom)) = (span(|p| p.x), span(|p| p.y));
    let wide = (right - left).max(bottom - top);
    let room = size * (1.0 - 2.0 * MARGIN);
    let scale = if wide > 0.0 { room / wide } else { 0.0 };
    let on = |p: &Place| Place {
        x: 0.5 * size + scale * (p.x - 0.5 * (left + right)),
        y: 0.5 * size + scale * (p.y - 0.5 * (top + bottom)),
        depth: p.depth,
    };
    places.iter().map(on).collect()
}

/// Lines from pale to dark by weight, the strongest last.
fn edges(canvas: &mut Pixmap, network: &Network, places: &[Place], line: f32, radius: f32) {
    /// Shades of grey.
    const SHADES: usize = 8;
    /// Lines of one path: its time grows with the square of what it holds.
    const TOGETHER: usize = 64;
    // Hairlines are drawn much faster, and many lines must be thin to be told apart.
    const MANY: usize = 8192;
    let line = if network.entries() > MANY { line.min(1.0) } else { line };
    let one_way = !network.is_symmetric();
    let most = network.edges().map(|e| e.2.abs()).fold(0.0_f32, f32::max);
    let depth = places
        .iter()
        .map(|p| p.depth)
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    let mut shades: Vec<Vec<PathBuilder>> = vec![Vec::new(); SHADES];
    let mut count = [0_usize; SHADES];
    for (i, j, weight) in network.edges().filter(|(i, j, _)| i != j && (one_way || i < j)) {
        let (a, b) = (places[i as usize], places[j as usize]);
        let strength = if most > 0.0 { (weight.abs() / most).sqrt() } else { 1.0 };
        let near =
            if depth.1 > depth.0 { (0.5 * (a.depth + b.depth) - depth.0) / (depth.1 - depth.0) } else { 1.0 };
        let shade = ((0.15 + 0.85 * strength * near) * (SHADES - 1) as f32).round() as usize;
        let shade = shade.min(SHADES - 1);
        if count[shade].is_multiple_of(TOGETHER) {
            shades[shade].push(PathBuilder::new());
        }
        count[shade] += 1;
        let Some(path) = shades[shade].last_mut() else { continue };
        path.move_to(a.x, a.y);
        path.line_to(b.x, b.y);
        if one_way {
            head(path, (a, b), radius);
        }
    }
    let stroke = Stroke { width: line, line_cap: LineCap::Round, ..Stroke::default() };
    // Where many lines cross, each darkens the paper a little.
    let lines = count.iter().sum::<usize>().max(1) as f32;
    let cover = (8.0 * canvas.width() as f32 / (line * lines)).clamp(0.08, 1.0);
    let paths = shades
        .into_iter()
        .enumerate()
        .flat_map(|(shade, list)| list.into_iter().map(move |path| (shade, path)));
    for (shade, path) in paths {
        let Some(path) = path.finish() else { continue };
        let grey = (225.0 - 150.0 * shade as f32 / (SHADES - 1) as f32) as u8;
        let mut paint = ink([grey; 3]);
        paint.set_color_rgba8(grey, grey, grey, (255.0 * cover) as u8);
        canvas.stroke_path(&path, &paint, &stroke, Transform::identity(), None);
    }
}

/// Two short strokes before the dot that an edge leads to.
fn head(path: &mut PathBuilder, (a, b): (Place, Place), radius: f32) {
    let (dx, dy) = (b.x - a.x, b.y - a.y);
    let long = dx.hypot(dy);
    if long <= 3.0 * radius {
        return;
    }
    let (ux, uy) = (dx / long, dy / long);
    let (x, y) = (b.x - 1.2 * radius * ux, b.y - 1.2 * radius * uy);
    for side in [0.5, -0.5] {
        path.move_to(x, y);
        path.line_to(x - radius * (ux + side * uy), y - radius * (uy - side * ux));
    }
}

fn ink([r, g, b]: [u8; 3]) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(r, g, b, 255);
    paint.anti_alias = true;
    paint
}

fn dot(canvas: &mut Pixmap, (x, y): (f32, f32), radius: f32, colour: [u8; 3]) {
    let circle: Option<Path> = PathBuilder::from_circle(x, y, radius);
    if let Some(circle) = circle {
        canvas.fill_path(&circle, &ink(colour), FillRule::Winding, Transform::identity(), None);
    }
}

/// What nodes are called, to the right of their dots on a paper of their own.
fn names(picture: &mut RgbImage, loaded: &Loaded, places: &[Place], radius: f32, notices: &mut Vec<String>) {
    let scale = (picture.width() / 450).max(1) as f32;
    let high = 14.0 * scale;
    let mut lacking = Vec::new();
    for (i, place) in places.iter().enumerate() {
        let mut name = loaded.names.get(i).cloned().unwrap_or_else(|| i.to_string());
        if name.chars().count() > LETTERS {
            name = name.chars().take(LETTERS - 1).chain(['…']).collect();
        }
        lacking.extend(letters::lacking(&name));
        let wide = letters::width(&name, high);
        let right = place.x + radius + 3.0 * scale;
        // Left of the dot where the paper ends.
        let left =
            if right + wide > picture.width() as f32 { place.x - radius - 3.0 * scale - wide } else { right };
        let (left, top) = (left.max(0.0), (place.y - 0.5 * high).max(0.0));
        for y in top as u32..((top + high) as u32).min(picture.height()) {
            for x in (left - scale).max(0.0) as u32..((left + wide + scale) as u32).min(picture.width()) {
                let pixel = picture.get_pixel_mut(x, y);
                *pixel = Rgb(pixel.0.map(|c| c / 4 + 191));
            }
        }
        letters::write(picture, (left, top), high, &name, INK);
    }
    lacking.sort_unstable();
    lacking.dedup();
    if !lacking.is_empty() {
        let list: Vec<String> = lacking.iter().map(char::to_string).collect();
        notices.push(format!(
            "names have letters that the fonts lack, drawn as {}: {}",
            letters::LACKING,
            list.join(" ")
        ));
    }
}
