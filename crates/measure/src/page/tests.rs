//! What every page promises, whatever it is given.

use proptest::prelude::*;

use super::*;

/// Checks that every element of `markup` is closed in order, as XML demands, and returns how many
/// there are.
fn well_formed(markup: &str) -> Result<usize, String> {
    let mut open: Vec<&str> = Vec::new();
    let mut count = 0;
    for piece in markup.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').ok_or_else(|| format!("<{piece} does not end"))?;
        let name = tag.split(' ').next().unwrap_or_default();
        match name.strip_prefix('/') {
            Some(name) if open.last() == Some(&name) => drop(open.pop()),
            Some(name) => return Err(format!("</{name}> closes {open:?}")),
            None if tag.matches('"').count() % 2 == 1 => {
                return Err(format!("<{tag}> has an open quote"));
            }
            None => {
                open.push(name);
                count += 1;
            }
        }
        let entities = ["amp;", "lt;", "gt;", "quot;"];
        if text
            .split('&')
            .skip(1)
            .any(|rest| !entities.iter().any(|entity| rest.starts_with(entity)))
        {
            return Err(format!("{text} is not escaped"));
        }
    }
    if open.is_empty() { Ok(count) } else { Err(format!("{open:?} stay open")) }
}

/// The drawings of a page.
fn drawings(page: &str) -> Vec<&str> {
    let pieces = page.split("<svg ").skip(1);
    pieces.filter_map(|piece| piece.split_once("</svg>").map(|(inside, _)| inside)).collect()
}

/// A page with every kind of chart over the same points.
fn page_of(names: &[String], points: &[(f64, f64)]) -> String {
    let axes = [
        || Axis::linear("value", Unit::SECONDS),
        || Axis::log2("value", Unit::NONE),
        || Axis::log10("value", Unit::FRAMES),
    ];
    let mut page = Page::new("All of it");
    for axis in axes {
        let mut lines = Lines::new("Lines", axis(), axis());
        let mut groups = Bars::new("Groups", axis())
            .groups("group", points.iter().map(|point| point.0.to_string()));
        let mut ranges = Bars::new("Ranges", axis())
            .groups("group", points.iter().map(|point| point.0.to_string()));
        let mut bars = Bars::new("Bars", axis());
        let mut cdf = Cdf::new("Distribution", axis());
        let groups_of_boxes = points.iter().map(|point| point.0.to_string());
        let mut boxes = Boxes::new("Boxes", axis(), "group", groups_of_boxes);
        for name in names {
            lines = lines.series(name, points.iter().copied()).mark(name, 7.0, name);
            groups = groups.series(name, points.iter().map(|point| point.1));
            ranges = ranges.ranged(name, points.iter().map(|point| (point.1, [point.0, point.1])));
            bars = bars.bar(name, points.first().map_or(0.0, |point| point.1));
            cdf = cdf.steps(name, points.iter().copied());
            let whiskered =
                |&(x, y): &(f64, f64)| Whiskered { five: [x, y, x, y, x], outliers: vec![y] };
            boxes = boxes.series(name, points.iter().map(|point| Some(whiskered(point))));
        }
        page = page
            .chart(lines)
            .chart(groups)
            .chart(ranges.clone())
            .chart(ranges.horizontal())
            .chart(bars.clone())
            .chart(bars.horizontal())
            .chart(cdf)
            .chart(boxes);
    }
    page.render()
}

#[test]
fn a_page_fetches_nothing_and_runs_nothing() {
    let page = page_of(&["zovn".into()], &[(1.0, 2.0)]);
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!without_namespace.contains(outside), "{outside}");
    }
}

#[test]
fn names_are_escaped_everywhere() {
    let nasty = r#"<b onclick="x">&'"#.to_owned();
    let page = page_of(std::slice::from_ref(&nasty), &[(1.0, 2.0)]);
    let page =
        Page::new(&nasty).lead(&nasty).note(&nasty).facts([(&nasty, &nasty)]).render() + &page;
    assert!(!page.contains("<b onclick"));
    assert!(page.contains("&lt;b onclick=&quot;x&quot;&gt;&amp;"));
}

#[test]
fn every_drawing_is_described_and_tabled() {
    let page = page_of(&["zovn".into(), "bridge".into()], &[(1.0, 2.0), (2.0, 0.0)]);
    let drawings = drawings(&page);
    assert_eq!(drawings.len(), 24);
    assert_eq!(page.matches("<table").count(), drawings.len());
    for drawing in drawings {
        assert!(drawing.contains("<desc id=") && drawing.contains("bridge: "), "{drawing}");
    }
}

#[test]
fn points_are_joined_by_a_line_only_where_one_is_asked_for() {
    let axis = || Axis::linear("value", Unit::NONE);
    let points = [(1.0, 2.0), (2.0, 1.0)];
    let lines_of = |chart: Lines| {
        Page::new("Points").chart(chart).render().matches("<path class=\"line\"").count()
    };
    let chart = || Lines::new("Points", axis(), axis());
    assert_eq!(lines_of(chart().points("expected", points).points("carried", points)), 0);
    // One is the sample in the legend.
    assert_eq!(lines_of(chart().series("carried", points)), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_data_make_a_sound_page(
        names in prop::collection::vec("[a-z<&\"' ·]{0,12}", 0..4),
        points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..12),
    ) {
        let page = page_of(&names, &points);
        for drawing in drawings(&page) {
            let elements = well_formed(&format!("<svg {drawing}</svg>")).map_err(TestCaseError::fail)?;
            prop_assert!(elements > 2);
            // Group names come from the data, and may say NaN or inf; no coordinate does.
            for number in drawing.split('"').skip(1).step_by(2) {
                prop_assert!(!number.contains("NaN") && !number.contains("inf"), "{}", number);
            }
        }
    }
}
