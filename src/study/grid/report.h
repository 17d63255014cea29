// The reports of a study: a terminal's summary, CSV, JSON, and a page of HTML that needs no other file.
#pragma once

#include <string>
#include <vector>

#include "study/analysis.h"
#include "study/grid/result.h"
#include "study/grid/study_file.h"

namespace leat::study {

// Points that differ in the number of workers only.
struct Series {
  GridPoint common;                        // workers: of the first one
  std::string name;                        // what distinguishes it from the other series
  std::vector<const PointResult*> points;  // those that have succeeded, by workers
  std::vector<SeriesPoint> values;         // likewise
  std::optional<SweetSpot> sweet_spot;
};

// `results` must outlive the series.
std::vector<Series> SeriesOf(const StudyFile& study, const std::vector<PointResult>& results);
// Of points that have succeeded: the one with the shortest time to the target, or the highest speed. Null:
// none.
const PointResult* Winner(const StudyFile& study, const std::vector<PointResult>& results);

std::string RenderText(const StudyFile& study, const std::vector<PointResult>& results);
std::string RenderCsv(const StudyFile& study, const std::vector<PointResult>& results);
std::string RenderJson(const StudyFile& study, const std::vector<PointResult>& results);
std::string RenderHtml(const StudyFile& study, const std::vector<PointResult>& results);

// A bar of eight heights for each value, relative to the largest.
std::string Sparkline(const std::vector<double>& values);

}  // namespace leat::study
