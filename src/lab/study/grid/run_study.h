// Runs the points of a study, and keeps their results.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lab/study/grid/points.h"
#include "lab/study/grid/study_file.h"

namespace leat::study {

struct StudyRun {
  std::string folder;  // results and logs; made if it is missing
  std::string data;    // --data
  PlanOptions plan;
  JobFacts facts;
  std::string profile;  // file; empty: none
  std::function<bool()> interrupted;
  std::function<void(const std::string&)> say;  // a line of progress
};

// Marks the points whose results are in the folder, with all that they depend on unchanged.
void FindDone(const StudyFile& study, const StudyRun& run, std::vector<PlannedPoint>* plan);

// Runs the points that are not done. A point that fails is a result with an error. Real points run one after
// the other, simulated ones on all cores. kAborted if it was interrupted; finished points are kept.
Status RunStudy(const StudyFile& study, const StudyRun& run, std::vector<PlannedPoint>* plan);

// All results of the plan that are in the folder.
std::vector<PointResult> ReadResults(const StudyFile& study, const StudyRun& run,
                                     const std::vector<PlannedPoint>& plan);

}  // namespace leat::study
