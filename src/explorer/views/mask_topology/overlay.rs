//! Two small textures over the photograph: the painting, a texel per cell, and what the query does not see, a texel per
//! token. They are made again only when what they show has changed.

use super::survey::Survey;
use crate::explorer::canvas::{Placed, WHOLE};
use crate::explorer::mask::{HIDDEN, MaskDocument, REGIONS, is_hidden, region_of};
use crate::explorer::theme;
use eframe::egui::{self, Color32, ColorImage, Painter, Rect, TextureHandle, TextureOptions, Visuals};
use glam::{DVec2, UVec2};

/// What the painting was made from: the mask's revision, whether the theme is dark, columns and rows of tokens.
type PaintingKey = (u64, bool, [usize; 2]);

/// Both textures and what they were made from.
#[derive(Default)]
pub(super) struct Overlay {
    painting: Option<(TextureHandle, PaintingKey)>,
    unseen: Option<(TextureHandle, Vec<u8>, [usize; 2], bool)>,
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay")
            .field("painting", &self.painting.as_ref().map(|p| p.1))
            .finish_non_exhaustive()
    }
}

impl Overlay {
    /// Draws what the query does not see and the painting over it.
    pub(super) fn show(
        &mut self,
        ui: &egui::Ui,
        painter: &Painter,
        placed: &Placed,
        mask: &MaskDocument,
        survey: &Survey,
    ) {
        if mask.is_empty() {
            return;
        }
        let (context, visuals) = (ui.ctx(), ui.visuals());
        if let Some(grid) = survey.grid() {
            let (size, keys, dark) = ([grid.cols(), grid.rows()], survey.seen_keys(), visuals.dark_mode);
            let current =
                self.unseen.as_ref().is_some_and(|(_, k, s, d)| (k.as_slice(), *s, *d) == (keys, size, dark));
            if !current && keys.len() == size[0] * size[1] {
                let shade = theme::unseen(visuals);
                let texel = |seen: &u8| if *seen == 1 { Color32::TRANSPARENT } else { shade };
                let image = ColorImage::new(size, keys.iter().map(texel).collect());
                let old = self.unseen.take().map(|(texture, ..)| texture);
                let texture = upload(context, old, "unseen keys", image, TextureOptions::NEAREST);
                self.unseen = Some((texture, keys.to_vec(), size, dark));
            }
            if let Some((texture, ..)) = &self.unseen {
                let cells = DVec2::new(size[0] as f64, size[1] as f64) * grid.effective_stride();
                let whole = Rect::from_min_max(placed.rect.min, placed.to_screen(cells));
                let painter = painter.with_clip_rect(placed.clip.intersect(placed.rect));
                painter.image(texture.id(), whole, WHOLE, Color32::WHITE);
            }
        }
        let grid = survey.grid().map(|grid| [grid.cols(), grid.rows()]).unwrap_or_default();
        let key = (mask.revision(), visuals.dark_mode, grid);
        if self.painting.as_ref().is_none_or(|(_, made_from)| *made_from != key) {
            let old = self.painting.take().map(|(texture, _)| texture);
            let image = painting(mask, survey, placed.size, visuals);
            self.painting = Some((upload(context, old, "painted mask", image, TextureOptions::LINEAR), key));
        }
        if let Some((texture, _)) = &self.painting {
            painter.image(texture.id(), placed.rect, WHOLE, Color32::WHITE);
        }
    }
}

fn upload(
    context: &egui::Context,
    old: Option<TextureHandle>,
    name: &str,
    image: ColorImage,
    options: TextureOptions,
) -> TextureHandle {
    match old {
        Some(mut texture) => {
            texture.set(image, options);
            texture
        }
        None => context.load_texture(name, image, options),
    }
}

/// Whether a region's own pattern has ink in a cell: colours alone say nothing to everyone.
fn pattern(region: u8, x: usize, y: usize) -> bool {
    let (x, y) = (x % 12, y % 12);
    let (rising, falling) = ((x + y) % 12, (x + 12 - y) % 12);
    match region {
        1 => falling < 2,
        2 => y < 2,
        3 => x < 2,
        4 => x.is_multiple_of(6) && y.is_multiple_of(6),
        5 => rising < 2,
        6 => x < 1 || y < 1,
        7 => rising < 1 || falling < 1,
        8 => (x < 6) != (y < 6),
        _ => false,
    }
}

/// The painting, one texel per cell: areas, patterns and outlines. What is hidden is hatched by tokens, which are hidden as
/// wholes, so that hatch and shade are of one shape; a line tells where the brush has been.
fn painting(mask: &MaskDocument, survey: &Survey, photo: UVec2, visuals: &Visuals) -> ColorImage {
    let (width, height) = (mask.size().x as usize, mask.size().y as usize);
    let cells = mask.cells();
    let (scrim, hatch) = theme::hidden(visuals);
    // [label][ink: area, pattern, outline]
    let table: Vec<[Color32; 3]> = (0..=REGIONS)
        .flat_map(|region| [region, region | HIDDEN])
        .map(|label| {
            let region = region_of(label);
            let colour = theme::region(region, visuals);
            let strength = if region == 0 { [0.0; 3] } else { [0.32, 0.55, 1.0] };
            let ink = strength.map(|strength: f32| colour.gamma_multiply(strength));
            if is_hidden(label) { ink.map(|ink| scrim.blend(ink.gamma_multiply(0.7))) } else { ink }
        })
        .collect();
    let per_cell = photo.as_dvec2() / DVec2::new(width.max(1) as f64, height.max(1) as f64);
    // As painted where the settings allow no grid.
    let hides = |x: usize, y: usize, label: u8| {
        let at = (DVec2::new(x as f64, y as f64) + 0.5) * per_cell;
        survey.hides(at).unwrap_or(is_hidden(label))
    };
    let row = |label: u8| table.get(usize::from(region_of(label)) * 2 + usize::from(is_hidden(label)));
    let mut texels = Vec::with_capacity(cells.len());
    for (y, line) in cells.chunks_exact(width.max(1)).enumerate() {
        let above = if y > 0 { &cells[(y - 1) * width..y * width] } else { line };
        let below = if y + 1 < height { &cells[(y + 1) * width..(y + 2) * width] } else { line };
        for (x, label) in line.iter().enumerate() {
            let hidden = hides(x, y, *label);
            if *label == 0 && !hidden {
                texels.push(Color32::TRANSPARENT);
                continue;
            }
            let (left, right) = (line[x.saturating_sub(1)], line[(x + 1).min(width - 1)]);
            let around = [left, right, above[x], below[x]];
            let region = region_of(*label);
            let outline = around.iter().any(|other| region_of(*other) != region);
            let edge = around.iter().any(|other| is_hidden(*other) != is_hidden(*label));
            let ink = if outline { 2 } else { usize::from(pattern(region, x, y)) };
            let shown = if hidden { *label | HIDDEN } else { region };
            let colour = row(shown).map_or(Color32::TRANSPARENT, |inks| inks[ink]);
            let hatched = (is_hidden(*label) && edge) || (hidden && (x + y) % 8 < 2);
            texels.push(if hatched { colour.blend(hatch) } else { colour });
        }
    }
    ColorImage::new([width, height], texels)
}
