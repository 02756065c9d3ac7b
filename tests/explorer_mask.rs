//! Masks painted by hand, without a window: what the tools leave behind, and which keys a query then sees.

use glam::{DVec2, UVec2, dvec2, uvec2};
use proptest::prelude::*;
use wgattn::explorer::mask::{
    HIDDEN, LONG_SIDE, Link, MaskDocument, Paint, REGIONS, RegionPlace, is_hidden, region_of,
};
use wgattn::vision::grid::TokenGrid;

const PHOTO: UVec2 = UVec2::new(640, 480);

fn grid(photo: UVec2, stride: u32) -> TokenGrid {
    TokenGrid::plan(photo, 8, stride, 16_384).expect("a grid of an ordinary photograph")
}

fn mutual(from: u8, to: u8) -> Link {
    Link { from, to, mutual: true }
}

fn one_way(from: u8, to: u8) -> Link {
    Link { from, to, mutual: false }
}

/// Left third region 1, middle third region 2, the rest unpainted.
fn thirds() -> MaskDocument {
    let mut mask = MaskDocument::default();
    mask.rectangle(PHOTO, dvec2(0.0, 0.0), dvec2(209.9, 480.0), Paint::Region(1));
    mask.rectangle(PHOTO, dvec2(210.0, 0.0), dvec2(419.9, 480.0), Paint::Region(2));
    mask
}

/// Keys seen by a query at `x`: in the left, middle and right third.
fn sees(mask: &MaskDocument, x: u32) -> [bool; 3] {
    let grid = grid(PHOTO, 8);
    let keys = mask.keys(&grid, uvec2(x, 240)).expect("something is painted");
    [100, 300, 600].map(|x| keys[grid.token_at(uvec2(x, 100)).expect("inside")] == 1)
}

#[test]
fn nothing_painted_restricts_nothing() {
    let mut mask = MaskDocument::default();
    assert!(mask.is_empty());
    assert_eq!(mask.keys(&grid(PHOTO, 8), uvec2(3, 3)), None);
    assert!(!mask.stroke(PHOTO, DVec2::ZERO, dvec2(99.0, 99.0), 20.0, Paint::Nothing), "erasing air");
    mask.link(mutual(1, 2));
    assert_eq!(mask.keys(&grid(PHOTO, 8), uvec2(3, 3)), None, "links between unpainted regions do nothing");
}

#[test]
fn fast_stroke_of_the_thinnest_brush_leaves_no_gap() {
    let (from, to) = (dvec2(11.0, 17.0), dvec2(620.0, 431.0));
    let mut mask = MaskDocument::default();
    assert!(mask.stroke(PHOTO, from, to, 0.0, Paint::Region(3)));
    for step in 0..=5000 {
        let at = from.lerp(to, f64::from(step) / 5000.0);
        assert_eq!(mask.label_at(PHOTO, at), 3, "gap at {at}");
    }
}

#[test]
fn brush_paints_a_disc_of_its_radius_in_photograph_pixels() {
    let (mut mask, centre) = (MaskDocument::default(), dvec2(300.0, 200.0));
    mask.stroke(PHOTO, centre, centre, 40.0, Paint::Hidden);
    for (angle, radius) in (0..64).flat_map(|a| [(a, 37.0), (a, 43.0)]) {
        let at = centre + DVec2::from_angle(f64::from(angle) * 0.1) * radius;
        assert_eq!(is_hidden(mask.label_at(PHOTO, at)), radius < 40.0, "{radius} pixels away at {at}");
    }
}

#[test]
fn stroke_far_outside_the_photograph_paints_nothing() {
    let mut mask = MaskDocument::default();
    assert!(!mask.stroke(PHOTO, dvec2(-90.0, -90.0), dvec2(-50.0, 300.0), 30.0, Paint::Hidden));
    assert!(!mask.stroke(PHOTO, dvec2(f64::NAN, 0.0), dvec2(5.0, 5.0), 30.0, Paint::Hidden));
    assert!(!mask.rectangle(PHOTO, dvec2(700.0, 0.0), dvec2(900.0, 90.0), Paint::Hidden));
    assert!(!mask.fill(PHOTO, dvec2(640.0, 3.0), Paint::Hidden));
    assert!(mask.is_empty());
}

#[test]
fn eraser_takes_region_and_hidden_area_and_leaves_an_empty_mask() {
    let mut mask = MaskDocument::default();
    let at = dvec2(100.0, 100.0);
    mask.stroke(PHOTO, at, at, 20.0, Paint::Region(4));
    mask.stroke(PHOTO, at, at, 20.0, Paint::Hidden);
    assert_eq!(mask.label_at(PHOTO, at), HIDDEN | 4);
    mask.stroke(PHOTO, at, at, 10.0, Paint::Nothing);
    assert_eq!(mask.label_at(PHOTO, at), 0);
    assert_eq!(mask.label_at(PHOTO, dvec2(115.0, 100.0)), HIDDEN | 4);
    mask.stroke(PHOTO, at, at, 30.0, Paint::Nothing);
    assert!(mask.is_empty());
    assert_eq!(mask, MaskDocument::default());
}

#[test]
fn hidden_and_region_are_painted_independently() {
    let mut mask = MaskDocument::default();
    let at = dvec2(100.0, 100.0);
    mask.stroke(PHOTO, at, at, 20.0, Paint::Hidden);
    mask.stroke(PHOTO, at, at, 20.0, Paint::Region(2));
    assert_eq!(mask.label_at(PHOTO, at), HIDDEN | 2);
    mask.stroke(PHOTO, at, at, 20.0, Paint::Region(0));
    assert_eq!(mask.label_at(PHOTO, at), HIDDEN);
    assert!(!mask.stroke(PHOTO, at, at, 20.0, Paint::Region(REGIONS + 1)), "there is no such region");
}

#[test]
fn fill_stays_inside_a_drawn_outline() {
    let mut mask = MaskDocument::default();
    let corners = [(100.0, 100.0), (300.0, 120.0), (200.0, 300.0), (100.0, 100.0)];
    for side in corners.windows(2) {
        let [a, b] = [side[0], side[1]].map(|(x, y)| dvec2(x, y));
        mask.stroke(PHOTO, a, b, 3.0, Paint::Region(1));
    }
    assert!(mask.fill(PHOTO, dvec2(200.0, 170.0), Paint::Region(1)));
    assert_eq!(mask.label_at(PHOTO, dvec2(200.0, 170.0)), 1);
    assert_eq!(mask.label_at(PHOTO, dvec2(20.0, 20.0)), 0);
    assert!(mask.fill(PHOTO, dvec2(200.0, 170.0), Paint::Region(5)));
    assert_eq!(mask.label_at(PHOTO, dvec2(100.0, 100.0)), 5, "outline and inside had become one area");
    assert!(!mask.fill(PHOTO, dvec2(200.0, 170.0), Paint::Region(5)), "nothing to change");
}

#[test]
fn fill_of_a_spiral_reaches_its_end() {
    let mut mask = MaskDocument::default();
    let photo = UVec2::splat(512);
    // Walls of region 1 with openings left and right in turn.
    for (wall, y) in (20..500).step_by(20).enumerate() {
        let (left, right) = if wall % 2 == 0 { (0.0, 489.0) } else { (22.0, 511.9) };
        mask.rectangle(photo, dvec2(left, f64::from(y)), dvec2(right, f64::from(y)), Paint::Region(1));
    }
    mask.fill(photo, dvec2(5.0, 5.0), Paint::Region(2));
    assert!(mask.cells().iter().all(|label| *label == 1 || *label == 2), "something was not reached");
}

#[test]
fn invert_twice_is_nothing() {
    let mut mask = MaskDocument::default();
    mask.invert_hidden(PHOTO);
    assert!(mask.cells().iter().all(|label| *label == HIDDEN));
    mask.invert_hidden(PHOTO);
    assert_eq!(mask, MaskDocument::default());
}

#[test]
fn a_query_sees_its_own_region_only() {
    let mask = thirds();
    assert_eq!(sees(&mask, 100), [true, false, false]);
    assert_eq!(sees(&mask, 300), [false, true, false]);
    assert_eq!(sees(&mask, 600), [false, false, true], "unpainted is a region like the others");
}

#[test]
fn mutual_links_go_both_ways_and_arrows_one() {
    let mut mask = thirds();
    assert!(mask.link(mutual(2, 1)));
    assert_eq!((sees(&mask, 100), sees(&mask, 300)), ([true, true, false], [true, true, false]));
    assert!(mask.link(one_way(1, 2)), "replaces the mutual link");
    assert_eq!(mask.links(), [one_way(1, 2)]);
    assert_eq!((sees(&mask, 100), sees(&mask, 300)), ([true, true, false], [false, true, false]));
    assert!(mask.link(one_way(0, 1)));
    assert_eq!(sees(&mask, 600), [true, false, true], "one step only: 2 is not seen through 1");
    assert_eq!((mask.reach(0), mask.reach(1), mask.reach(2)), (vec![0, 1], vec![1, 2], vec![2]));
    assert!(mask.unlink(2, 1) && !mask.unlink(2, 1));
    assert_eq!(sees(&mask, 100), [true, false, false]);
}

#[test]
fn links_to_oneself_or_beyond_the_last_region_are_refused() {
    let mut mask = thirds();
    let before = mask.revision();
    for link in [mutual(1, 1), mutual(0, REGIONS + 1), one_way(200, 1)] {
        assert!(!mask.link(link), "{link:?}");
    }
    assert_eq!((mask.links().len(), mask.revision()), (0, before));
}

#[test]
fn one_direction_is_set_without_touching_the_other() {
    let mut mask = thirds();
    assert!(mask.set_sees(1, 2, true));
    assert_eq!(mask.links(), [one_way(1, 2)]);
    assert!(mask.set_sees(2, 1, true));
    assert_eq!(mask.links(), [mutual(1, 2)]);
    assert!(mask.set_sees(1, 2, false));
    assert_eq!(mask.links(), [one_way(2, 1)]);
    assert!(mask.set_sees(2, 1, false));
    assert!(mask.links().is_empty());
    assert!(!mask.set_sees(1, 1, false), "a region always sees itself");
}

#[test]
fn hidden_keys_are_seen_by_no_region_but_a_hidden_query_sees() {
    let mut mask = thirds();
    mask.link(mutual(1, 2));
    mask.rectangle(PHOTO, dvec2(0.0, 0.0), dvec2(209.9, 480.0), Paint::Hidden);
    assert_eq!(sees(&mask, 300), [false, true, false]);
    assert_eq!(sees(&mask, 100), [false, true, false]);
}

#[test]
fn all_keys_hidden_is_all_zeros() {
    let mut mask = MaskDocument::default();
    mask.invert_hidden(PHOTO);
    let grid = grid(PHOTO, 8);
    assert_eq!(mask.keys(&grid, uvec2(5, 5)), Some(vec![0; grid.tokens()]));
}

#[test]
fn query_outside_counts_as_the_nearest_pixel() {
    let (mask, grid) = (thirds(), grid(PHOTO, 8));
    assert_eq!(mask.keys(&grid, uvec2(9999, 9999)), mask.keys(&grid, uvec2(639, 479)));
}

#[test]
fn another_photograph_keeps_relative_places() {
    let mask = thirds();
    let tall = uvec2(300, 900);
    assert_eq!(mask.label_at(tall, dvec2(50.0, 800.0)), 1);
    assert_eq!(mask.label_at(tall, dvec2(150.0, 10.0)), 2);
    assert_eq!(mask.label_at(tall, dvec2(250.0, 10.0)), 0);
    let mut painted = mask.clone();
    painted.stroke(tall, dvec2(290.0, 890.0), dvec2(290.0, 890.0), 5.0, Paint::Region(7));
    assert_eq!(painted.size(), uvec2(171, LONG_SIDE));
    for (x, y) in (0..300).step_by(7).flat_map(|x| (0..850).step_by(9).map(move |y| (x, y))) {
        let at = dvec2(f64::from(x), f64::from(y));
        let near_border = [98.4, 196.9].iter().any(|border: &f64| (border - at.x).abs() < 3.0);
        assert!(near_border || painted.label_at(tall, at) == mask.label_at(tall, at), "at {at}");
    }
    assert_eq!(mask.size(), uvec2(LONG_SIDE, 384), "looking alone does not resample");
}

#[test]
fn photographs_of_any_shape_can_be_painted() {
    for photo in [uvec2(1, 1), uvec2(1, 5000), uvec2(9000, 3), uvec2(0, 0), uvec2(512, 511)] {
        let mut mask = MaskDocument::default();
        mask.stroke(photo, DVec2::ZERO, photo.as_dvec2(), 4.0, Paint::Region(2));
        mask.fill(photo, DVec2::ZERO, Paint::Hidden);
        mask.invert_hidden(photo);
        assert!(mask.size().max_element() == LONG_SIDE && mask.size().min_element() >= 1, "{photo}");
        mask.region_places();
    }
}

#[test]
fn clones_share_the_bitmap_until_one_is_painted() {
    let mut mask = thirds();
    let kept = mask.clone();
    assert_eq!(mask.cells().as_ptr(), kept.cells().as_ptr());
    assert!(!mask.stroke(PHOTO, dvec2(50.0, 50.0), dvec2(60.0, 60.0), 5.0, Paint::Region(1)));
    assert_eq!((mask.cells().as_ptr(), mask.revision()), (kept.cells().as_ptr(), kept.revision()));
    assert!(mask.stroke(PHOTO, dvec2(50.0, 50.0), dvec2(60.0, 60.0), 5.0, Paint::Region(6)));
    assert!(mask != kept && mask.revision() != kept.revision());
    assert_eq!(kept, thirds(), "equal by content, not by history");
}

#[test]
fn handles_lie_inside_their_regions() {
    let mut mask = MaskDocument::default();
    let (centre, photo) = (dvec2(320.0, 240.0), PHOTO);
    // A ring, whose centroid is not in it.
    mask.stroke(photo, centre, centre, 150.0, Paint::Region(1));
    mask.stroke(photo, centre, centre, 90.0, Paint::Region(2));
    mask.rectangle(photo, dvec2(0.0, 0.0), dvec2(1.0, 1.0), Paint::Region(8));
    let places = mask.region_places();
    let regions: Vec<u8> = places.iter().map(|place| place.region).collect();
    assert_eq!(regions, [0, 1, 2, 8]);
    for RegionPlace { region, cells, place } in places {
        let label = mask.label_at(photo, place * photo.as_dvec2());
        assert_eq!(label, region, "handle at {place}");
        assert_eq!(cells, mask.cells().iter().filter(|label| **label == region).count());
    }
    assert!(MaskDocument::default().region_places().is_empty());
}

#[test]
fn stored_masks_are_small_and_come_back() {
    let mut mask = thirds();
    mask.stroke(PHOTO, dvec2(50.0, 50.0), dvec2(600.0, 300.0), 30.0, Paint::Hidden);
    mask.link(mutual(1, 2));
    mask.link(one_way(2, 0));
    let text = serde_json::to_string(&mask).expect("a mask is plain data");
    assert!(text.len() < 20_000, "{} bytes", text.len());
    let back: MaskDocument = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(back, mask);
    assert_ne!(back.revision(), mask.revision(), "another history");
    let empty: MaskDocument = serde_json::from_str("{}").expect("all fields have defaults");
    assert_eq!(empty, MaskDocument::default());
}

#[test]
fn damaged_files_say_what_is_wrong() {
    let cases = [
        (r#"{"size":[513,4],"runs":[2052,0]}"#, "size of the painted mask"),
        (r#"{"size":[5,0]}"#, "size of the painted mask"),
        (r#"{"size":[4,4],"runs":[15,1]}"#, "runs over 16 cells"),
        (r#"{"size":[4,4],"runs":[16,1,3]}"#, "runs over 16 cells"),
        (r#"{"size":[4,4],"runs":[4294967295,1,4294967295,1]}"#, "runs over 16 cells"),
        (r#"{"size":[4,4],"runs":[16,9]}"#, "got 9"),
        (r#"{"size":[4,4],"runs":[16,300]}"#, "got 300"),
        (r#"{"links":[{"from":3,"to":3,"mutual":true}]}"#, "two different regions"),
    ];
    for (text, says) in cases {
        let error = serde_json::from_str::<MaskDocument>(text).expect_err(text).to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

/// A stroke, rectangle, fill or link, from numbers.
#[derive(Clone, Debug)]
struct Step {
    tool: u8,
    places: [(f64, f64); 2],
    radius: f64,
    paint: Paint,
    link: Link,
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (-0.2f64..1.2, -0.2f64..1.2);
    let paint = prop_oneof![
        Just(Paint::Hidden),
        Just(Paint::Nothing),
        (0..=REGIONS).prop_map(Paint::Region),
        (1..=REGIONS).prop_map(Paint::Region)
    ];
    let link =
        (0..=REGIONS, 0..=REGIONS, any::<bool>()).prop_map(|(from, to, mutual)| Link { from, to, mutual });
    (0u8..5, [place(), place()], 0.0f64..90.0, paint, link)
        .prop_map(|(tool, places, radius, paint, link)| Step { tool, places, radius, paint, link })
}

fn take(mask: &mut MaskDocument, photo: UVec2, step: &Step) {
    let [a, b] = step.places.map(|(x, y)| dvec2(x, y) * photo.as_dvec2());
    match step.tool {
        0 => mask.rectangle(photo, a, b, step.paint),
        1 => mask.fill(photo, a, step.paint),
        2 => mask.link(step.link),
        _ => mask.stroke(photo, a, b, step.radius, step.paint),
    };
}

/// Keys as the definition has them: cell by cell, links followed one by one.
fn keys_by_definition(mask: &MaskDocument, grid: &TokenGrid, query: UVec2) -> Vec<u8> {
    let label = |token: usize| {
        let share = grid.token_rect(token).expect("a token").centre() / grid.photo_size().as_dvec2();
        let size = mask.size();
        let (x, y) = ((share.x * f64::from(size.x)) as usize, (share.y * f64::from(size.y)) as usize);
        mask.cells()[y * size.x as usize + x]
    };
    let any_region = mask.cells().iter().any(|label| region_of(*label) > 0);
    let own = region_of(label(grid.token_at(query).expect("inside")));
    let may = |key: u8| {
        let linked = mask.links().iter().any(|link| {
            (link.from == own && link.to == key) || (link.mutual && link.to == own && link.from == key)
        });
        !any_region || key == own || linked
    };
    let seen = |token| u8::from(!is_hidden(label(token)) && may(region_of(label(token))));
    (0..grid.tokens()).map(seen).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn keys_are_those_of_the_definition(
        steps in prop::collection::vec(step(), 1..12),
        size in (1u32..700, 1u32..700),
        later in (1u32..700, 1u32..700),
        stride in 4u32..24,
        query in (0.0f64..1.0, 0.0f64..1.0),
    ) {
        let (photo, later) = (uvec2(size.0, size.1), uvec2(later.0, later.1));
        let mut mask = MaskDocument::default();
        for step in &steps {
            take(&mut mask, photo, step);
        }
        for photo in [photo, later] {
            let grid = grid(photo, stride);
            let query = (dvec2(query.0, query.1) * photo.as_dvec2()).as_uvec2();
            match mask.keys(&grid, query) {
                None => prop_assert!(mask.cells().iter().all(|label| *label == 0)),
                Some(keys) => prop_assert_eq!(keys, keys_by_definition(&mask, &grid, query)),
            }
        }
        let text = serde_json::to_string(&mask).expect("a mask is plain data");
        let back: MaskDocument = serde_json::from_str(&text).expect("what was written can be read");
        prop_assert_eq!(back, mask);
    }

    #[test]
    fn a_revision_names_one_content(steps in prop::collection::vec(step(), 1..12)) {
        let mut mask = MaskDocument::default();
        for step in &steps {
            let before = mask.clone();
            take(&mut mask, PHOTO, step);
            let same = before.size() == mask.size()
                && before.cells() == mask.cells()
                && before.links() == mask.links();
            prop_assert_eq!(before.revision() == mask.revision(), same);
            prop_assert_eq!(before == mask, same);
        }
    }
}
