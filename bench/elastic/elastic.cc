// Jobs whose members come, go and die: the pauses of training, and the cost.
//
//   bench_elastic [--only ROWS] [--seconds S] [--runs N]
//
// Each job consists of real processes of this build, and is observed through its status. --seconds shortens
// the rows that last for a set time. Rows that fail are named on stderr, and the others are measured all the
// same.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "cluster.h"
#include "frame/report.h"
#include "frame/session.h"
#include "rows.h"

namespace {

using namespace leat::bench;

struct Rows {
  const char* name;
  void (*measure)(Report&, const ElasticOptions&);
};
constexpr std::array kRows{Rows{"workers", MeasureKilledWorkers},
                           Rows{"servers", MeasureKilledServers},
                           Rows{"servers-replicas", MeasureKilledServersWithReplicas},
                           Rows{"coordinator", MeasureRestartedCoordinators},
                           Rows{"standby", MeasureStandbyCoordinators},
                           Rows{"scale", MeasureScaling},
                           Rows{"moves", MeasureMoves},
                           Rows{"replicas-cost", MeasureCostOfReplicas},
                           Rows{"goodput", MeasureGoodput},
                           Rows{"goodput-no-replicas", MeasureGoodputWithoutReplicas},
                           Rows{"evictions", MeasureFalseEvictions}};

}  // namespace

int main(int argc, char** argv) {
  Args args(argc, argv);
  const std::string only = args.String("--only", "");
  const ElasticOptions options{.runs = static_cast<int>(args.Number("--runs", 3)),
                               .seconds = args.Number("--seconds", 0)};
  args.RefuseTheRest();
  if (options.runs < 1) {
    std::fprintf(stderr, "--runs must be at least 1\n");
    return 2;
  }
  if (!only.empty() && std::ranges::find(kRows, only, &Rows::name) == kRows.end()) {
    std::fprintf(stderr, "no rows '%s'; there are:", only.c_str());
    for (const Rows& rows : kRows) std::fprintf(stderr, " %s", rows.name);
    std::fprintf(stderr, "\n");
    return 2;
  }
  setenv("LEAT_TOKEN", kToken, 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  CatchInterrupts();
  Report report("elastic", args);
  bool failed = false;
  for (const Rows& rows : kRows) {
    if (!only.empty() && only != rows.name) continue;
    try {
      CheckInterrupted();
      rows.measure(report, options);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "bench elastic: %s: %s\n", rows.name, e.what());
      failed = true;
    }
  }
  const int status = report.Finish();
  return failed ? 1 : status;
}
