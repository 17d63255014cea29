// The reports of a study: a terminal's summary, CSV, JSON, and a page of HTML that needs no other file.
#pragma once

#include <string>
#include <vector>

#include "lab/study/analysis.h"
#include "lab/study/grid/study.h"

namespace leat::study {

// Points that differ in the number of workers only.
struct Series {
  GridPoint common;                        // workers: of the first one
  std::string name;                        // settings that distinguish it from the other series
  std::vector<const PointResult*> points;  // succeeded points, by workers
  std::vector<SeriesPoint> values;         // values of `points`, in the same order
  std::optional<SweetSpot> sweet_spot;
};

// `results` must outlive the series.
std::vector<Series> SeriesOf(const StudyFile& study, const std::vector<PointResult>& results);
// The succeeded point with the shortest time to the target or, without a target, the highest speed. Null:
// none.
const PointResult* Winner(const StudyFile& study, const std::vector<PointResult>& results);

std::string RenderText(const StudyFile& study, const std::vector<PointResult>& results);
std::string RenderCsv(const StudyFile& study, const std::vector<PointResult>& results);
std::string RenderJson(const StudyFile& study, const std::vector<PointResult>& results);
std::string RenderHtml(const StudyFile& study, const std::vector<PointResult>& results);

// A bar of eight heights for each value, relative to the largest.
std::string Sparkline(const std::vector<double>& values);

}  // namespace leat::study
