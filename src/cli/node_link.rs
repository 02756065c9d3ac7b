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
use tiny_skia::{
    Color, FillRule, LineCap, Paint, Path, PathBuilder, Pixmap, PremultipliedColorU8, Stroke, Transform,
};

/// Paper around the drawing, as a share of its side.
const MARGIN: f32 = 0.06;
/// Most nodes that are named in the picture.
const NAMED: usize = 64;
/// Longest name.
const LETTERS: usize = 14;
/// Most of a usual edge that a dot's radius takes: on roads, nodes follow each other closely while most of the paper is bare.
const ALONG: f32 = 0.35;
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
    let radius = (size as f32 * (0.03 / n.max(1) as f32).sqrt()).min(0.016 * size as f32);
    let radius = radius.min(ALONG * usual_length(network, &places)).max(0.8);
    let line = (radius / 5.0).min(0.0025 * size as f32).max(0.4);
    edges(&mut canvas, network, &places, (line, radius), notices);

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

/// The median length of edges on the paper; without bound where none has a length.
fn usual_length(network: &Network, places: &[Place]) -> f32 {
    let length = |i: u32, j: u32| {
        let (a, b) = (places[i as usize], places[j as usize]);
        (a.x - b.x).hypot(a.y - b.y)
    };
    let mut lengths: Vec<f32> =
        network.edges().map(|(i, j, _)| length(i, j)).filter(|length| *length > 0.0).collect();
    if lengths.is_empty() {
        return f32::INFINITY;
    }
    let middle = lengths.len() / 2;
    *lengths.select_nth_unstable_by(middle, f32::total_cmp).1
}

/// An edge as it is drawn: its ends and its shade of grey.
type Line = ((Place, Place), usize);

/// Shades of grey from pale to dark.
const SHADES: usize = 8;

/// Edges beyond which lines are thin and are added up pixel by pixel: paths of thousands of lines take tens of seconds.
const MANY: usize = 4096;

/// Most pixels that so many lines pass; of more, some are left out, and that is told.
const MOST_INK: f64 = 6e7;

/// Lines from pale to dark by weight, the strongest last.
fn edges(
    canvas: &mut Pixmap,
    network: &Network,
    places: &[Place],
    (line, radius): (f32, f32),
    notices: &mut Vec<String>,
) {
    let one_way = !network.is_symmetric();
    let most = network.edges().map(|e| e.2.abs()).fold(0.0_f32, f32::max);
    let depth = places
        .iter()
        .map(|p| p.depth)
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    let lines = || {
        network.edges().filter(move |(i, j, _)| i != j && (one_way || i < j)).map(move |(i, j, weight)| {
            let (a, b) = (places[i as usize], places[j as usize]);
            let strength = if most > 0.0 { (weight.abs() / most).sqrt() } else { 1.0 };
            let near = match depth.1 > depth.0 {
                true => (0.5 * (a.depth + b.depth) - depth.0) / (depth.1 - depth.0),
                false => 1.0,
            };
            let shade = ((0.15 + 0.85 * strength * near) * (SHADES - 1) as f32).round() as usize;
            ((a, b), shade.min(SHADES - 1))
        })
    };
    let count = lines().count();
    let line = if count > MANY { line.min(1.0) } else { line };
    // Where many lines cross, each darkens the paper a little.
    let cover = |lines: usize| {
        let lines = lines.max(1) as f32 * if one_way { 3.0 } else { 1.0 };
        (8.0 * canvas.width() as f32 / (line * lines)).clamp(0.08, 1.0)
    };
    if count <= MANY {
        return stroked(canvas, lines(), (line, cover(count)), one_way.then_some(radius));
    }
    let long: f64 =
        lines().map(|((a, b), _)| 1.0 + f64::from((a.x - b.x).abs().max((a.y - b.y).abs()))).sum();
    let every = (long / MOST_INK).ceil().max(1.0) as usize;
    if every > 1 {
        notices.push(format!("{count} edges are more than can be told apart: one in {every} is drawn"));
    }
    let cover = cover(count / every);
    added_up(canvas, &|| lines().step_by(every), (line, cover), one_way.then_some(radius));
}

fn grey_of(shade: usize) -> u8 {
    (225.0 - 150.0 * shade as f32 / (SHADES - 1) as f32) as u8
}

/// Lines as paths, with heads before dots of a radius.
fn stroked(
    canvas: &mut Pixmap,
    lines: impl Iterator<Item = Line>,
    (line, cover): (f32, f32),
    heads: Option<f32>,
) {
    /// Lines of one path: its time grows with the square of what it holds.
    const TOGETHER: usize = 64;
    let mut shades: Vec<Vec<PathBuilder>> = vec![Vec::new(); SHADES];
    let mut count = [0_usize; SHADES];
    for ((a, b), shade) in lines {
        if count[shade].is_multiple_of(TOGETHER) {
            shades[shade].push(PathBuilder::new());
        }
        count[shade] += 1;
        let Some(path) = shades[shade].last_mut() else { continue };
        for (from, to) in strokes((a, b), heads) {
            path.move_to(from.0, from.1);
            path.line_to(to.0, to.1);
        }
    }
    let stroke = Stroke { width: line, line_cap: LineCap::Round, ..Stroke::default() };
    let paths = shades
        .into_iter()
        .enumerate()
        .flat_map(|(shade, list)| list.into_iter().map(move |path| (shade, path)));
    for (shade, path) in paths {
        let Some(path) = path.finish() else { continue };
        let grey = grey_of(shade);
        let mut paint = ink([grey; 3]);
        paint.set_color_rgba8(grey, grey, grey, (255.0 * cover) as u8);
        canvas.stroke_path(&path, &paint, &stroke, Transform::identity(), None);
    }
}

/// Thin lines by the thousand: what they cover of every pixel is added up shade by shade, and darkens the paper as so many sheets of tinted
/// glass would.
fn added_up<L: Iterator<Item = Line>>(
    canvas: &mut Pixmap,
    lines: &dyn Fn() -> L,
    (line, cover): (f32, f32),
    heads: Option<f32>,
) {
    let (wide, high) = (canvas.width() as usize, canvas.height() as usize);
    let mut present = [false; SHADES];
    lines().for_each(|(_, shade)| present[shade] = true);
    let mut sheets = vec![0.0_f32; wide * high];
    for shade in (0..SHADES).filter(|shade| present[*shade]) {
        sheets.fill(0.0);
        for (ends, _) in lines().filter(|(_, own)| *own == shade) {
            strokes(ends, heads).for_each(|stroke| add_line(&mut sheets, (wide, high), stroke, line));
        }
        let grey = f32::from(grey_of(shade));
        for (pixel, sheets) in
            canvas.pixels_mut().iter_mut().zip(&sheets).filter(|(_, sheets)| **sheets > 0.0)
        {
            let through = (1.0 - cover).max(0.0).powf(*sheets);
            let mixed = |paper: u8| (grey + through * (f32::from(paper) - grey)).round() as u8;
            let [r, g, b] = [pixel.red(), pixel.green(), pixel.blue()].map(mixed);
            *pixel = PremultipliedColorU8::from_rgba(r, g, b, 255).unwrap_or(*pixel);
        }
    }
}

/// Adds a line a pixel wide at most, step by step along its longer axis; what lies between two pixels is shared by both.
fn add_line(sheets: &mut [f32], (wide, high): (usize, usize), ((ax, ay), (bx, by)): Stretch, line: f32) {
    let steep = (by - ay).abs() > (bx - ax).abs();
    let (from, to) = if steep { ((ay, ax), (by, bx)) } else { ((ax, ay), (bx, by)) };
    let (from, to) = if from.0 > to.0 { (to, from) } else { (from, to) };
    let slope = if to.0 > from.0 { (to.1 - from.1) / (to.0 - from.0) } else { 0.0 };
    let first = from.0.round().max(0.0);
    for step in 0..=(to.0.round() - first).max(0.0) as usize {
        let along = first + step as f32;
        let across = (from.1 + slope * (along - from.0)).max(0.0);
        let part = across.fract();
        for (across, part) in [(across as usize, 1.0 - part), (across as usize + 1, part)] {
            let (x, y) = if steep { (across, along as usize) } else { (along as usize, across) };
            if x < wide && y < high {
                sheets[y * wide + x] += line * part;
            }
        }
    }
}

/// From a point to another.
type Stretch = ((f32, f32), (f32, f32));

/// The strokes of an edge: the line, and two short ones before the dot of a radius that it leads to.
fn strokes((a, b): (Place, Place), heads: Option<f32>) -> impl Iterator<Item = Stretch> {
    let (dx, dy) = (b.x - a.x, b.y - a.y);
    let long = dx.hypot(dy);
    let heads = heads.filter(|radius| long > 3.0 * radius).map(|radius| {
        let (ux, uy) = (dx / long, dy / long);
        let (x, y) = (b.x - 1.2 * radius * ux, b.y - 1.2 * radius * uy);
        let stroke = |side: f32| ((x, y), (x - radius * (ux + side * uy), y - radius * (uy - side * ux)));
        [stroke(0.5), stroke(-0.5)]
    });
    std::iter::once(((a.x, a.y), (b.x, b.y))).chain(heads.into_iter().flatten())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::build::complete;

    fn drawn(network: Network) -> (RgbImage, Vec<String>, f64) {
        let names = Vec::new();
        let loaded = Loaded { network, names, places: Vec::new(), dimensions: 0 };
        let mut notices = Vec::new();
        let began = cpu_time::ThreadTime::now();
        let picture = draw(&loaded, None, 900, &mut notices).expect("a picture");
        (picture, notices, began.elapsed().as_secs_f64())
    }

    #[test]
    fn complete_networks_are_drawn_in_bounded_time() {
        let (picture, notices, seconds) = drawn(complete(400).expect("79 800 edges"));
        // 0.6 s of processor time in a debug build; lines as paths took 10 s.
        assert!(seconds < 4.0, "{seconds} s");
        assert!(notices.is_empty(), "{notices:?}");
        let grey = |p: &Rgb<u8>| p.0[0] < 200 && p.0[0].abs_diff(p.0[2]) < 8;
        let share = picture.pixels().filter(|p| grey(p)).count() as f64 / (900.0 * 900.0);
        assert!((0.3..0.8).contains(&share), "{share} of the paper is covered by lines");
    }

    #[test]
    fn thin_lines_added_up_cover_what_they_pass() {
        let mut sheets = vec![0.0; 20 * 10];
        add_line(&mut sheets, (20, 10), ((2.0, 3.0), (17.0, 3.0)), 1.0);
        assert_eq!(sheets.iter().sum::<f32>(), 16.0);
        assert!((2..=17).all(|x| sheets[3 * 20 + x] == 1.0));
        // The same from the other end; a steep one; one that leaves the paper.
        let mut back = vec![0.0; 20 * 10];
        add_line(&mut back, (20, 10), ((17.0, 3.0), (2.0, 3.0)), 1.0);
        assert_eq!(sheets, back);
        let mut steep = vec![0.0; 20 * 10];
        add_line(&mut steep, (20, 10), ((5.0, 0.0), (9.0, 9.0)), 0.5);
        assert!((steep.iter().sum::<f32>() - 5.0).abs() < 1e-4, "{}", steep.iter().sum::<f32>());
        add_line(&mut steep, (20, 10), ((-9.0, 4.0), (40.0, -30.0)), 1.0);
    }
}
