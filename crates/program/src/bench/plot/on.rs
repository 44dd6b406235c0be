//! Plots of a suite as SVG.

use std::path::Path;

use plotters::prelude::*;
use stagewright::code::X001;
use stagewright::text::visible;

use super::super::case::Row;
use super::super::convergence::{EffortMeasure, curve};
use super::super::summary::{Mean, Summary};
use crate::error::{CliError, Result};
use crate::files;

/// Width and height in pixels.
const SIZE: (u32, u32) = (900, 520);
/// Largest ratio shown.
const LARGEST_RATIO: f64 = 10.0;
/// Colours that are distinct for all types of colour vision (Okabe and Ito, 2008); further lines use lighter tints.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(0, 0, 0),
];

/// Writes the plots of every objective into a folder, which is created if it does not exist. Plots convergence if the
/// rows record it.
pub(in crate::bench) fn write(folder: &Path, name: &str, rows: &[Row], summaries: &[Summary]) -> Result<()> {
    files::make_folder(folder)?;
    for (index, group) in summaries.chunk_by(|left, right| left.objective == right.objective).enumerate() {
        let title = match group[0].objective.as_str() {
            "" => name.to_owned(),
            objective => format!("{name}: {objective}"),
        };
        // XML cannot represent most control characters.
        let title = visible(&title);
        let suffix = if index == 0 { String::new() } else { format!("-{}", index + 1) };
        let failed = |error: &dyn std::fmt::Display| CliError::new(X001, format!("cannot draw: {error}"));
        let profile = profile(&title, group).map_err(|error| failed(&error))?;
        files::write(&folder.join(format!("profile{suffix}.svg")), &profile)?;
        let means = means(&title, group).map_err(|error| failed(&error))?;
        files::write(&folder.join(format!("means{suffix}.svg")), &means)?;
        let rows: Vec<&Row> = rows.iter().filter(|row| row.objective == group[0].objective).collect();
        let efforts = [
            (EffortMeasure::Seconds, "convergence"),
            (EffortMeasure::Simulations, "convergence-simulations"),
        ];
        for (effort, file) in efforts {
            let curves: Vec<Curve<'_>> = group
                .iter()
                .map(|summary| (summary.solver.as_str(), curve(&rows, &summary.solver, effort)))
                .collect();
            if curves.iter().any(|(_, points)| points.len() > 1) {
                let drawn = curves_of(&title, &curves, effort).map_err(|error| failed(&error))?;
                files::write(&folder.join(format!("{file}{suffix}.svg")), &drawn)?;
            }
        }
    }
    Ok(())
}

type Drawn<T = String> = Result<T, Box<dyn std::error::Error>>;

/// An SVG with a title and room for the labels of the vertical axis, whose content `draw` adds.
fn drawn(
    title: &str,
    label_width: u32,
    draw: impl FnOnce(&mut ChartBuilder<'_, '_, SVGBackend<'_>>) -> Drawn<()>,
) -> Drawn {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut frame = ChartBuilder::on(&area);
        frame
            .caption(title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(label_width);
        draw(&mut frame)?;
        area.present()?;
    }
    Ok(text)
}

/// The performance profile of each solver (Dolan and Moré, "Benchmarking optimization software with performance
/// profiles", Mathematical Programming 2002): the fraction of cases that it solves within a given ratio of the best
/// value.
fn profile(title: &str, group: &[Summary]) -> Drawn {
    let largest = group.iter().flat_map(|summary| &summary.ratios).copied().fold(1.0, f64::max);
    let largest = (1.02 * largest).clamp(1.05, LARGEST_RATIO);
    drawn(title, 56, |frame| {
        let mut chart = frame.build_cartesian_2d((1.0..largest).log_scale(), 0.0..1.02)?;
        chart
            .configure_mesh()
            .x_desc("value over the best of the case")
            .y_desc("share of the cases")
            .x_label_formatter(&|ratio| format!("{ratio:.2}"))
            .draw()?;
        let line = |summary: &Summary| {
            let mut ratios = summary.ratios.clone();
            ratios.sort_by(f64::total_cmp);
            let share = |count: usize| count as f64 / summary.cases.max(1) as f64;
            let mut points = vec![(1.0, 0.0)];
            for (count, ratio) in ratios.iter().enumerate().filter(|(_, ratio)| **ratio <= largest) {
                points.extend([(*ratio, share(count)), (*ratio, share(count + 1))]);
            }
            points.push((largest, points.last().map_or(0.0, |point| point.1)));
            (summary.solver.clone(), points)
        };
        draw_lines(&mut chart, group.iter().map(line), SeriesLabelPosition::LowerRight)
    })
}

/// Draws lines with a legend, each in its own colour.
fn draw_lines<'a, X, Y>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    lines: impl Iterator<Item = (String, Vec<(f64, f64)>)>,
    names: SeriesLabelPosition,
) -> Drawn<()>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    for (at, (name, points)) in lines.enumerate() {
        let style = style(at).stroke_width(2);
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(visible(&name))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(names)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

/// The name of a solver and the points of its curve.
type Curve<'a> = (&'a str, Vec<(f64, f64)>);

/// Plots the convergence of each solver.
fn curves_of(title: &str, curves: &[Curve<'_>], effort: EffortMeasure) -> Drawn {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let (from, to) = points().fold((f64::INFINITY, 0.0f64), |(from, to), (x, _)| (from.min(*x), to.max(*x)));
    // The axis covers whole decades, so that it has labels.
    let [from, end] = [10f64.powf(from.log10().floor()), 10f64.powf(to.log10().ceil())];
    let largest = points().map(|(_, y)| *y).fold(1.05, f64::max).min(LARGEST_RATIO);
    drawn(title, 56, |frame| {
        let mut chart = frame.build_cartesian_2d(
            (from..end.max(10.0 * from)).log_scale(),
            (1.0..1.02 * largest).log_scale(),
        )?;
        chart
            .configure_mesh()
            .x_desc(match effort {
                EffortMeasure::Seconds => "seconds",
                EffortMeasure::Simulations => "simulations",
            })
            .x_label_formatter(&|x| format!("{x}"))
            .y_desc("value so far over the best of the case")
            .y_label_formatter(&|ratio| format!("{ratio:.2}"))
            .draw()?;
        let line = |(solver, points): &Curve<'_>| {
            // The curve is a step function: each value holds until the next one, and the last until the end.
            let mut steps: Vec<(f64, f64)> = Vec::new();
            for &(x, y) in points.iter().filter(|(_, y)| *y <= 1.02 * largest) {
                steps.extend(steps.last().map(|&(_, before)| (x, before)));
                steps.push((x, y));
            }
            steps.extend(steps.last().map(|&(_, last)| (to, last)));
            ((*solver).to_owned(), steps)
        };
        draw_lines(&mut chart, curves.iter().map(line), SeriesLabelPosition::UpperRight)
    })
}

/// Plots the mean ratio of each solver, with its confidence interval.
fn means(title: &str, group: &[Summary]) -> Drawn {
    let shown: Vec<(&str, Mean)> =
        group.iter().filter_map(|summary| Some((summary.solver.as_str(), summary.over_best?))).collect();
    let end = |mean: &Mean| mean.interval.map_or(mean.value, |[_, to]| to);
    let largest = shown.iter().map(|(_, mean)| end(mean)).fold(1.05, f64::max);
    let rows = shown.len().max(1) as f64;
    drawn(title, 150, |frame| {
        let mut chart = frame.build_cartesian_2d((1.0..1.02 * largest).log_scale(), 0.0..rows)?;
        let label = |height: &f64| match shown.get((rows - height - 0.5).round().max(0.0) as usize) {
            Some((solver, _)) if (height.fract() - 0.5).abs() < 0.01 => visible(solver).into_owned(),
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .x_desc("value over the best of the case: geometric mean, 95% interval over inputs")
            .x_label_formatter(&|ratio| format!("{ratio:.2}"))
            .y_labels(4 * shown.len() + 1)
            .y_label_formatter(&label)
            .draw()?;
        for (at, (_, mean)) in shown.iter().enumerate() {
            let y = rows - at as f64 - 0.5;
            let style = style(at);
            if let Some([from, to]) = mean.interval {
                let line = [(from.max(1.0), y), (to, y)];
                chart.draw_series([PathElement::new(line, style.stroke_width(2))])?;
            }
            chart.draw_series([Circle::new((mean.value, y), 4, style.filled())])?;
        }
        Ok(())
    })
}

fn style(at: usize) -> ShapeStyle {
    let lighter = 1.0 / (1 + at / COLOURS.len()) as f64;
    COLOURS[at % COLOURS.len()].mix(lighter).into()
}
