// The reports of a study: a terminal's summary, CSV, JSON, and a page of HTML that needs no other file.
#pragma once

#include <string>
#include <vector>

#include "lab/study/grid/study.h"

namespace leat::study {

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
