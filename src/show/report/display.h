// Shows the progress of a running job: a live table in a terminal, plain lines elsewhere.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "show/report/job_status.h"

namespace leat::report {

// Renders a status as the lines of the live table. `columns` is the width of the screen; `history` holds
// earlier AUCs (or accuracies, or losses), oldest first, for the curve.
std::vector<std::string> RenderTable(const JobStatus& status, const std::vector<double>& history,
                                     size_t columns, bool colour);
// Renders a status as one line: "01:15  running  events 480,128 (40,211/s)  loss 0.0921  auc 0.9312 …"
std::string RenderLine(const JobStatus& status);
// Renders a summary as the lines that are printed at the end of a job.
std::string RenderSummary(const JobStatus& summary);

// Settings of a job with bots that explain its figures.
struct StartNotes {
  uint64_t bot_events = 0;
  double bot_rate = 0;  // events/s; 0: as fast as possible
  uint64_t window = 0;  // events that loss, accuracy and AUC cover
  bool auc = false;     // the model's task has an AUC
  bool servers = true;  // the strategy has servers
};
// Renders the lines that are printed at the start of such a job.
std::vector<std::string> RenderStart(const StartNotes& notes);

class Display {
 public:
  // Shows a live table if `out` is a terminal, otherwise a line every few seconds.
  explicit Display(std::FILE* out);
  ~Display();
  void Show(const JobStatus& status);
  // Prints a message that stays on the screen, above the table.
  void Say(const std::string& line);
  // Removes the table. Nothing is drawn after this.
  void Finish();

 private:
  void Clear();

  std::FILE* out_;
  bool live_;
  size_t drawn_ = 0;  // lines of the table that are on the screen
  std::vector<double> history_;
  double last_line_s_ = -1e9;
};

}  // namespace leat::report
