//! From a row of numbers to what the ends of the colour map stand for, and which tokens outshine all others.

use crate::explorer::settings::{Colours, Fusion, Look, Range};
use crate::vision::palette::Palette;

/// Heads fused on the host, as [`fuse_heads`](crate::kernels::image::fuse_heads) does on the device.
pub(super) fn fused(heads: &[Vec<f32>], fusion: Fusion) -> Vec<f32> {
    let tokens = heads.first().map_or(0, Vec::len);
    let all = |t: usize| heads.iter().map(move |h| h[t]);
    let value = |t: usize| match fusion {
        Fusion::Head(head) => heads[head.min(heads.len() - 1)][t],
        _ if all(t).any(|x| !x.is_finite()) => all(t).find(|x| !x.is_finite()).unwrap_or(f32::NAN),
        Fusion::Mean => all(t).sum::<f32>() / heads.len() as f32,
        Fusion::Max => all(t).fold(f32::NEG_INFINITY, f32::max),
        Fusion::Min => all(t).fold(f32::INFINITY, f32::min),
    };
    (0..tokens).map(value).collect()
}

/// The value that a share of the finite magnitudes stay under; 0 for none.
fn quantile(magnitudes: &mut [f32], share: f64) -> f32 {
    if magnitudes.is_empty() {
        return 0.0;
    }
    let at = ((magnitudes.len() - 1) as f64 * share.clamp(0.0, 1.0)).round() as usize;
    *magnitudes.select_nth_unstable_by(at, f32::total_cmp).1
}

fn magnitudes(values: &[f32]) -> Vec<f32> {
    values.iter().filter(|x| x.is_finite()).map(|x| x.abs()).collect()
}

/// A sink's magnitude is at least this many times what 99 % of the tokens stay under.
const SINK_FACTOR: f32 = 4.0;

/// Tokens that outshine all others: few artefacts of real models hide everything else otherwise.
pub(super) fn sinks(values: &[f32]) -> Vec<usize> {
    let fence = SINK_FACTOR * quantile(&mut magnitudes(values), 0.99);
    if fence <= 0.0 {
        return Vec::new();
    }
    (0..values.len()).filter(|&t| values[t].is_finite() && values[t].abs() > fence).collect()
}

/// Ends of the colour map, its colours, and whether it is grey.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) range: (f32, f32),
    pub(super) palette: Palette,
    pub(super) grey: bool,
    /// Least magnitude under the logarithm.
    pub(super) least: f32,
}

/// How several pictures that share a colour map are drawn.
pub(super) fn scale(pictures: &[&[f32]], look: &Look, signed: bool) -> Scale {
    let hidden: Vec<Vec<usize>> = match look.hide_sinks {
        true => pictures.iter().map(|p| sinks(p)).collect(),
        false => vec![Vec::new(); pictures.len()],
    };
    let kept = || {
        pictures.iter().zip(&hidden).flat_map(|(values, hidden)| {
            let shown = move |t: &usize| values[*t].is_finite() && hidden.binary_search(t).is_err();
            (0..values.len()).filter(shown).map(|t| values[t])
        })
    };
    let negative = signed || kept().any(|x| x < 0.0);
    let share = match look.range {
        Range::Clip(percent) => 1.0 - f64::from(percent) / 100.0,
        _ => 1.0,
    };
    let mut sizes: Vec<f32> = kept().map(f32::abs).collect();
    let largest = quantile(&mut sizes, share).max(f32::MIN_POSITIVE * 1e8);
    let least = (largest * 1e-6).max(f32::MIN_POSITIVE);
    let palette = match look.colours {
        Colours::Auto if look.log => Palette::Sequential,
        Colours::Auto if negative => Palette::Diverging,
        Colours::Auto | Colours::Sequential | Colours::Grey => Palette::Sequential,
        Colours::Diverging => Palette::Diverging,
    };
    let range = match look.range {
        Range::Fixed(low, high) if high > low && (high - low).is_finite() => (low, high),
        _ if look.log => (least.log10(), largest.log10()),
        _ if negative || palette == Palette::Diverging => (-largest, largest),
        _ => (0.0, largest),
    };
    Scale { range, palette, grey: look.colours == Colours::Grey, least }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_tokens_that_outshine_the_rest_are_found_and_left_out_of_the_range() {
        let mut row: Vec<f32> = (0..1000).map(|i| (i % 10) as f32 / 10.0).collect();
        row[77] = 50.0;
        assert_eq!(sinks(&row), [77]);
        let look = Look { hide_sinks: true, ..Look::default() };
        assert_eq!(scale(&[&row], &look, false).range, (0.0, 0.9));
        assert_eq!(scale(&[&row], &Look::default(), false).range, (0.0, 50.0));
    }

    #[test]
    fn negative_numbers_make_the_range_symmetric_and_the_colours_diverging() {
        let scale = scale(&[&[-2.0, 1.0, f32::NAN]], &Look::default(), false);
        assert_eq!((scale.range, scale.palette), ((-2.0, 2.0), Palette::Diverging));
    }

    #[test]
    fn clipping_cuts_the_largest_off() {
        let row: Vec<f32> = (0..=100).map(|i| i as f32).collect();
        let look = Look { range: Range::Clip(10.0), ..Look::default() };
        assert_eq!(scale(&[&row], &look, false).range, (0.0, 90.0));
    }

    #[test]
    fn rows_without_any_finite_number_still_have_a_range() {
        for row in [&[][..], &[f32::NAN], &[0.0, 0.0]] {
            let (low, high) = scale(&[row], &Look::default(), false).range;
            assert!(high > low, "{row:?}: {low} {high}");
        }
    }
}
