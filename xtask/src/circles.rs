//! No circles among the files of a crate: arrows between files point one way.

use std::collections::{BTreeMap, BTreeSet};

use crate::breach::Breach;
use crate::c_files::{self, CFile};
use crate::names::Names;
use crate::source::SourceFile;

/// Files of one crate of which each leads to each other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    /// The crate.
    pub(crate) of: String,
    /// Relative to the crate's `src` (of C files, to the crate), sorted.
    pub(crate) files: Vec<String>,
    /// The arrows among them, for people: `a.rs → b.rs`.
    arrows: Vec<String>,
}

/// The circles of a crate, whose libraries and programs begin with `roots`.
pub(crate) fn find(of: &str, files: &[SourceFile], roots: &[String]) -> Vec<Circle> {
    let mut arrows = BTreeSet::new();
    for root in roots {
        arrows.extend(Names::read(files, root).arrows());
    }
    among(of, &arrows, &|index| {
        files
            .get(index)
            .and_then(|file| file.path.split_once("/src/"))
            .map_or("", |(_, inside)| inside)
    })
}

/// The circles of a crate's C files.
pub(crate) fn find_in_c(of: &str, files: &[CFile]) -> Vec<Circle> {
    among(of, &c_files::arrows(files), &|index| {
        files.get(index).map_or("", |file| &file.path)
    })
}

/// The circles that the arrows make, of files that `name` gives the names of.
fn among<'f>(
    of: &str,
    arrows: &BTreeSet<(usize, usize)>,
    name: &dyn Fn(usize) -> &'f str,
) -> Vec<Circle> {
    groups(arrows)
        .into_iter()
        .map(|group| {
            let mut names: Vec<String> = group.iter().map(|file| name(*file).to_owned()).collect();
            names.sort();
            let arrows = arrows
                .iter()
                .filter(|(from, to)| group.contains(from) && group.contains(to))
                .map(|(from, to)| format!("{} → {}", name(*from), name(*to)))
                .collect();
            Circle {
                of: of.to_owned(),
                files: names,
                arrows,
            }
        })
        .collect()
}

/// Compares the circles that are there with those that are tolerated for now, a list that may only become shorter.
pub(crate) fn compare(circles: &[Circle], tolerated: &[(&str, &[&str])]) -> Vec<Breach> {
    let is_same = |circle: &Circle, (of, files): &(&str, &[&str])| {
        circle.of == *of
            && circle
                .files
                .iter()
                .map(String::as_str)
                .eq(files.iter().copied())
    };
    let mut breaches = Vec::new();
    for circle in circles {
        if tolerated.iter().any(|listed| is_same(circle, listed)) {
            continue;
        }
        let is_smaller = tolerated.iter().any(|(of, files)| {
            circle.of == *of
                && circle
                    .files
                    .iter()
                    .all(|file| files.contains(&file.as_str()))
        });
        let cure = if is_smaller {
            "has become smaller: write so into xtask/src/tolerated.rs"
        } else {
            "is new: move what both sides need below both of them"
        };
        breaches.push(Breach::new(
            format!("crate {}", circle.of),
            format!(
                "the circle of the files {:?} {cure}; its arrows: {}",
                circle.files,
                circle.arrows.join(", ")
            ),
        ));
    }
    for listed in tolerated {
        if !circles.iter().any(|circle| is_same(circle, listed)) {
            breaches.push(Breach::new(
                format!("crate {}", listed.0),
                format!(
                    "the circle of the files {:?} is there no more: take it off `CIRCLES` in xtask/src/tolerated.rs",
                    listed.1
                ),
            ));
        }
    }
    breaches
}

/// The groups of more than one in which each leads to each other (strongly connected components).
fn groups(arrows: &BTreeSet<(usize, usize)>) -> Vec<BTreeSet<usize>> {
    let mut onward: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut backward: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (from, to) in arrows {
        onward.entry(*from).or_default().push(*to);
        backward.entry(*to).or_default().push(*from);
    }
    let mut found: Vec<BTreeSet<usize>> = Vec::new();
    for start in onward.keys() {
        if found.iter().any(|group| group.contains(start)) {
            continue;
        }
        let behind = reached(&backward, *start);
        let group: BTreeSet<usize> = reached(&onward, *start)
            .intersection(&behind)
            .copied()
            .collect();
        if group.len() > 1 {
            found.push(group);
        }
    }
    found
}

/// All that can be reached from `start`, itself included.
fn reached(arrows: &BTreeMap<usize, Vec<usize>>, start: usize) -> BTreeSet<usize> {
    let mut seen = BTreeSet::from([start]);
    let mut next = vec![start];
    while let Some(at) = next.pop() {
        for to in arrows.get(&at).into_iter().flatten() {
            if seen.insert(*to) {
                next.push(*to);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(of: &str, files: &[&str]) -> Circle {
        Circle {
            of: of.to_owned(),
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            arrows: Vec::new(),
        }
    }

    #[test]
    fn files_that_lead_back_to_themselves_are_a_circle() {
        let parse = |path: &str, text: &str| {
            SourceFile::parse(format!("x/src/{path}"), text.to_owned()).unwrap()
        };
        let files = [
            parse("lib.rs", "mod a; mod b; mod c; mod d;"),
            parse("a.rs", "use super::b;"),
            parse("b.rs", "use super::c;"),
            parse("c.rs", "fn f() { crate::a::f() }"),
            parse("d.rs", "use super::a;"),
        ];
        let found = find("x", &files, &["x/src/lib.rs".to_owned()]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].files, ["a.rs", "b.rs", "c.rs"]);
        assert_eq!(
            found[0].arrows,
            ["a.rs → b.rs", "b.rs → c.rs", "c.rs → a.rs"]
        );
    }

    #[test]
    fn the_list_of_tolerated_circles_only_shrinks() {
        let tolerated: &[(&str, &[&str])] = &[("x", &["a.rs", "b.rs", "c.rs"])];
        let messages = |circles: &[Circle]| -> String {
            let breaches = compare(circles, tolerated);
            breaches
                .into_iter()
                .map(|breach| breach.message + "\n")
                .collect()
        };
        assert_eq!(messages(&[circle("x", &["a.rs", "b.rs", "c.rs"])]), "");
        assert!(messages(&[]).contains("is there no more"));
        assert!(messages(&[circle("x", &["a.rs", "b.rs"])]).contains("has become smaller"));
        assert!(messages(&[circle("x", &["a.rs", "d.rs"])]).contains("is new"));
        assert!(messages(&[circle("y", &["a.rs", "b.rs", "c.rs"])]).contains("is new"));
    }
}
