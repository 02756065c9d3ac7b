//! The mask as a matrix on a small grid of tokens, and the spectrum of the circulant matrix that it is embedded in.
//!
//! The small grid takes every k-th token of the picture's, so that wide masks are seen falling off. Its weights are those of the
//! mask itself. The embedding is the one of the Fourier way: offsets −(m − 1) … m − 1 per axis, in a circle of 2m − 1.

use crate::explorer::relative_mask::offset_in_words;
use crate::explorer::widgets::{BarColours, colour_bar};
use crate::mask::MaskSpec;
use crate::numbers::{number, significant};
use eframe::egui::{
    self, Color32, ColorImage, Rect, Sense, Stroke, StrokeKind, TextureHandle, TextureOptions, Ui, vec2,
};
use rustfft::FftPlanner;
use rustfft::num_complex::Complex;

/// Share of the largest value that is still noise of f64.
const NOISE: f64 = 1e-9;

/// Share of the largest value that the logarithm begins at.
const LEAST: f64 = 1e-4;

/// Width from which on titles and notes have room in one line, in points.
const WIDE: f32 = 250.0;

/// A grid of every `step`-th token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Small {
    rows: u32,
    cols: u32,
    step: u32,
}

impl Small {
    /// At most `side` × `side` tokens of a grid, as far apart as suits the mask.
    fn of(mask: &MaskSpec, [rows, cols]: [usize; 2], side: u32) -> Self {
        let [r, c] = [rows, cols].map(|n| u32::try_from(n).unwrap_or(u32::MAX).clamp(1, side.clamp(1, 8)));
        let room = |n: usize, m: u32| if m > 1 { (n as u32 - 1) / (m - 1) } else { u32::MAX };
        let wanted = match mask {
            MaskSpec::Toeplitz(spec) => 0.5 * spec.size,
            MaskSpec::Separable { rows, cols } => 0.5 * rows.max(*cols),
            _ => 1.0,
        };
        let most = room(rows, r).min(room(cols, c)).clamp(1, 64);
        Self { rows: r, cols: c, step: wanted.round().clamp(1.0, f64::from(most)) as u32 }
    }

    fn tokens(self) -> u32 {
        self.rows * self.cols
    }
}

/// What is known of the eigenvalues of the embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sign {
    /// Real, and none negative.
    NonNegative,
    /// Real, the smallest one negative.
    Negative(f64),
    /// The mask is not symmetric.
    Complex,
}

/// What a picture was made from: colours, whether by the logarithm, and the version of the numbers.
type Made = (BarColours, bool, u64);

/// Both pictures and what they were made from.
#[derive(Default)]
pub(super) struct Matrix {
    made: Option<(MaskSpec, [usize; 2], u32)>,
    small: Option<Small>,
    /// Weights `[tokens, tokens]`.
    weights: Vec<f64>,
    /// Eigenvalues of the embedding `[2 rows − 1, 2 cols − 1]`, frequency 0 in the middle.
    spectrum: Vec<Complex<f64>>,
    /// Counts what was worked out.
    version: u64,
    pictures: [Option<(TextureHandle, Made)>; 2],
}

impl std::fmt::Debug for Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matrix").field("made", &self.made).field("small", &self.small).finish_non_exhaustive()
    }
}

impl Matrix {
    /// Works matrix and spectrum out where mask, grid or side changed.
    pub(super) fn update(&mut self, mask: &MaskSpec, sides: [usize; 2], side: u32) {
        let key = (mask.clone(), sides, side);
        if self.made.as_ref() == Some(&key) {
            return;
        }
        let small = Small::of(mask, sides, side);
        let n = [1, sides[0] as u32, sides[1] as u32];
        let at = |rows: i64, cols: i64| {
            let step = i64::from(small.step);
            f64::from(mask.at(n, [0, rows * step, cols * step]))
        };
        let place = |token: u32| (i64::from(token / small.cols), i64::from(token % small.cols));
        let pairs = (0..small.tokens()).flat_map(|i| (0..small.tokens()).map(move |j| (i, j)));
        let weight = |(i, j): (u32, u32)| {
            let ((a, b), (c, d)) = (place(i), place(j));
            at(a - c, b - d)
        };
        self.weights = pairs.map(weight).collect();
        self.spectrum = spectrum([small.rows, small.cols], at);
        (self.small, self.made) = (Some(small), Some(key));
        self.version += 1;
    }

    /// Draws the matrix into all of `ui`.
    pub(super) fn show_matrix(&mut self, ui: &mut Ui, colours: BarColours) {
        let Some(small) = self.small else { return };
        let every = match small.step {
            1 => String::new(),
            2 => ", every 2nd".into(),
            3 => ", every 3rd".into(),
            step => format!(", every {step}th"),
        };
        ui.add(
            egui::Label::new(format!("Matrix of {} × {} tokens{every}", small.rows, small.cols)).truncate(),
        );
        let n = small.tokens() as usize;
        let largest = self.weights.iter().copied().fold(0.0, f64::max);
        let shares: Vec<f64> =
            self.weights.iter().map(|w| if largest > 0.0 { w / largest } else { 0.0 }).collect();
        let response = self.picture(ui, 0, [n, n], (colours, false), &shares, |painter, square| {
            // A block per pair of rows of the small grid.
            let line = Stroke::new(1.0, Color32::from_white_alpha(90));
            for block in 1..small.rows {
                let along = square.width() * block as f32 / small.rows as f32;
                painter.vline(square.left() + along, square.y_range(), line);
                painter.hline(square.x_range(), square.top() + along, line);
            }
        });
        let width = response.rect.width();
        if let Some((row, col)) = under(&response, [n, n]) {
            let place = |t: usize| ((t / small.cols as usize) as i64, (t % small.cols as usize) as i64);
            let ((a, b), (c, d)) = (place(row), place(col));
            let step = i64::from(small.step);
            let offset = offset_in_words(((c - a) * step, (d - b) * step));
            let weight = self.weights[row * n + col];
            response.on_hover_text_at_pointer(format!(
                "Query {row}, key {col}: {offset}\nWeight {}",
                significant(weight, 3)
            ));
        }
        let ends = ("0".to_string(), significant(largest, 3));
        bar(ui, width, colours, ends, "Weight. Rows are queries, columns keys.");
        note(ui, "Equal along every diagonal, in every block");
    }

    /// Draws the spectrum into all of `ui`.
    pub(super) fn show_spectrum(&mut self, ui: &mut Ui, colours: BarColours, log: bool) {
        let Some(small) = self.small else { return };
        let (rows, cols) = (2 * small.rows as usize - 1, 2 * small.cols as usize - 1);
        let title = if ui.available_width() < WIDE {
            "Spectrum, |DFT|"
        } else {
            "Its spectrum, |DFT| of the embedding"
        };
        ui.add(egui::Label::new(title).truncate());
        let largest = self.spectrum.iter().map(|z| z.norm()).fold(0.0, f64::max);
        let share = |z: &Complex<f64>| match (largest > 0.0, log) {
            (false, _) => 0.0,
            (true, false) => z.norm() / largest,
            (true, true) => 1.0 - (z.norm() / largest).max(LEAST).log10() / LEAST.log10(),
        };
        let shares: Vec<f64> = self.spectrum.iter().map(share).collect();
        let response = self.picture(ui, 1, [rows, cols], (colours, log), &shares, |_, _| {});
        let width = response.rect.width();
        if let Some((row, col)) = under(&response, [rows, cols]) {
            let value = self.spectrum[row * cols + col];
            let frequency = |at: usize, len: usize| at as i64 - (len / 2) as i64;
            let imaginary = match value.im.abs() > NOISE * largest {
                true => format!(" {} {} i", if value.im < 0.0 { "−" } else { "+" }, number(value.im.abs())),
                false => String::new(),
            };
            response.on_hover_text_at_pointer(format!(
                "Frequency {} along rows, {} along columns\nEigenvalue {}{imaginary}",
                frequency(col, cols),
                frequency(row, rows),
                number(value.re)
            ));
        }
        let low = if log { LEAST * largest } else { 0.0 };
        let ends = (significant(low, 2), significant(largest, 3));
        bar(ui, width, colours, ends, "Magnitude of the eigenvalues; frequency 0 is in the middle.");
        let text = match sign(&self.spectrum) {
            Sign::NonNegative if largest == 0.0 => "All weights are 0".to_string(),
            Sign::NonNegative => "No value is negative: it is a covariance, too".into(),
            Sign::Negative(least) => format!("Some are negative, down to {}", number(least)),
            Sign::Complex => "Complex: the mask is not symmetric".into(),
        };
        note(ui, &text);
    }

    /// Draws `shares` of the colours `[rows, cols]` as large as there is room above a bar and a note.
    fn picture(
        &mut self,
        ui: &mut Ui,
        which: usize,
        [rows, cols]: [usize; 2],
        (colours, log): (BarColours, bool),
        shares: &[f64],
        over: impl FnOnce(&egui::Painter, Rect),
    ) -> egui::Response {
        let image = || ColorImage::new([cols, rows], shares.iter().map(|t| colours.at(*t)).collect());
        let made = (colours, log, self.version);
        let texture = match self.pictures[which].take() {
            Some((texture, old)) if old == made => texture,
            Some((mut texture, _)) => {
                texture.set(image(), TextureOptions::NEAREST);
                texture
            }
            None => {
                let name = ["mask matrix", "mask spectrum"][which];
                ui.ctx().load_texture(name, image(), TextureOptions::NEAREST)
            }
        };
        // A bar with its numbers, and a note of one line or two.
        let below = if ui.available_width() < WIDE { 78.0 } else { 60.0 };
        let room = ui.available_size() - vec2(0.0, below);
        let scale = (room.x / cols as f32).min(room.y / rows as f32).max(0.5);
        let (space, response) =
            ui.allocate_exact_size(scale * vec2(cols as f32, rows as f32), Sense::hover());
        let painter = ui.painter_at(space.expand(1.0));
        painter.image(texture.id(), space, crate::explorer::canvas::WHOLE, Color32::WHITE);
        over(&painter, space);
        let line = ui.visuals().widgets.noninteractive.bg_stroke;
        painter.rect_stroke(space, 0.0, line, StrokeKind::Outside);
        self.pictures[which] = Some((texture, made));
        response
    }
}

/// Row and column of the cell under the pointer.
fn under(response: &egui::Response, [rows, cols]: [usize; 2]) -> Option<(usize, usize)> {
    let at = response.hover_pos()?;
    let place = (at - response.rect.min) / response.rect.size();
    let cell = |x: f32, n: usize| ((x * n as f32) as usize).min(n - 1);
    response.rect.contains(at).then(|| (cell(place.y, rows), cell(place.x, cols)))
}

/// The colours under a picture that is `width` points wide.
fn bar(ui: &mut Ui, width: f32, colours: BarColours, ends: (String, String), hover: &str) {
    ui.scope(|ui| {
        ui.set_max_width(width);
        colour_bar(ui, colours, Some(ends), hover);
    });
}

fn note(ui: &mut Ui, text: &str) {
    ui.add(egui::Label::new(super::super::plots::caption(text)).wrap());
}

/// Eigenvalues of the circulant matrix of offsets −(m − 1) … m − 1 per axis, `[2m₁ − 1, 2m₂ − 1]`, frequency 0 in the middle;
/// `at` gives the weight at an offset.
fn spectrum([rows, cols]: [u32; 2], at: impl Fn(i64, i64) -> f64) -> Vec<Complex<f64>> {
    let [a, b] = [rows, cols].map(|m| 2 * m as usize - 1);
    let offset = |place: usize, len: usize| {
        // 0, 1, …, m − 1, then −(m − 1), …, −1.
        if place <= len / 2 { place as i64 } else { place as i64 - len as i64 }
    };
    let places = (0..a).flat_map(|r| (0..b).map(move |c| (r, c)));
    let mut data: Vec<Complex<f64>> =
        places.map(|(r, c)| Complex::new(at(offset(r, a), offset(c, b)), 0.0)).collect();
    let mut planner = FftPlanner::new();
    planner.plan_fft_forward(b).process(&mut data);
    let mut columns: Vec<Complex<f64>> =
        (0..b).flat_map(|c| (0..a).map(move |r| r * b + c)).map(|i| data[i]).collect();
    planner.plan_fft_forward(a).process(&mut columns);
    // Frequencies −m + 1 … m − 1.
    let shifted = |place: usize, len: usize| (place + len - len / 2) % len;
    (0..a)
        .flat_map(|r| (0..b).map(move |c| (r, c)))
        .map(|(r, c)| columns[shifted(c, b) * a + shifted(r, a)])
        .collect()
}

fn sign(spectrum: &[Complex<f64>]) -> Sign {
    let largest = spectrum.iter().map(|z| z.norm()).fold(0.0, f64::max);
    // Weights are f32, and symmetric ones are so to the bit.
    if spectrum.iter().any(|z| z.im.abs() > NOISE * largest) {
        return Sign::Complex;
    }
    let least = spectrum.iter().map(|z| z.re).fold(f64::INFINITY, f64::min);
    if least < -NOISE * largest { Sign::Negative(least) } else { Sign::NonNegative }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(text: &str) -> MaskSpec {
        text.parse().expect(text)
    }

    #[test]
    fn eigenvalues_are_those_of_the_definition() {
        let at = |r: i64, c: i64| 1.0 / (1.0 + (r * r) as f64 + 2.0 * c.abs() as f64) + 0.1 * c as f64;
        let (rows, cols) = (3_u32, 4_u32);
        let (a, b) = (5_i64, 7_i64);
        let found = spectrum([rows, cols], at);
        for (i, value) in found.iter().enumerate() {
            let (u, v) = (i as i64 / b - a / 2, i as i64 % b - b / 2);
            let mut sum = Complex::new(0.0, 0.0);
            for r in -2..=2_i64 {
                for c in -3..=3_i64 {
                    let turn = (u * r) as f64 / a as f64 + (v * c) as f64 / b as f64;
                    sum += at(r, c) * Complex::from_polar(1.0, -std::f64::consts::TAU * turn);
                }
            }
            assert!((sum - value).norm() < 1e-12, "frequency {u}, {v}: {value}, by definition {sum}");
        }
    }

    #[test]
    fn signs_of_the_spectrum_are_found() {
        let of = |text: &str| {
            let mut matrix = Matrix::default();
            matrix.update(&mask(text), [20, 20], 6);
            sign(&matrix.spectrum)
        };
        assert_eq!(of("toeplitz:exp,size=1,distance=l1"), Sign::NonNegative);
        assert!(matches!(of("toeplitz:window,size=2,distance=linf"), Sign::Negative(x) if x < -0.1));
        assert_eq!(of("causal"), Sign::Complex);
        assert_eq!(of("stencil:1x1,0"), Sign::NonNegative, "all zeros");
    }

    #[test]
    fn the_matrix_has_the_weights_of_the_mask_for_every_other_token() {
        let mut matrix = Matrix::default();
        let spec = mask("toeplitz:gauss,size=4,torus,causal");
        matrix.update(&spec, [9, 12], 4);
        let small = matrix.small.expect("made");
        assert_eq!((small.rows, small.cols, small.step), (4, 4, 2));
        let table = spec.table(&[9, 12]).expect("a table");
        let token = |t: u32| (t / 4 * 2) * 12 + (t % 4) * 2;
        for (i, j) in (0..16).flat_map(|i| (0..16).map(move |j| (i, j))) {
            let expected = f64::from(table.weight(0, token(i), token(j)));
            assert_eq!(matrix.weights[(i * 16 + j) as usize], expected, "query {i}, key {j}");
        }
    }

    #[test]
    fn small_grids_fit_into_any_picture() {
        for sides in [[1, 1], [1, 50], [2, 3], [200, 7]] {
            for side in [2, 6, 8] {
                let small = Small::of(&mask("toeplitz:gauss,size=30"), sides, side);
                let last = |m: u32| (m - 1) * small.step;
                assert!(
                    last(small.rows) < sides[0] as u32 && last(small.cols) < sides[1] as u32,
                    "{sides:?}: {small:?}"
                );
                assert!(small.tokens() <= 64);
            }
        }
    }
}
