// What a person sees of a running job: a live table in a terminal, plain lines elsewhere.
//
// Input is the coordinator's status JSON, so that every front end shows the same. Not thread-safe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace leat::train {

// Pure: what the screen should show for a status. `columns` is its width; history holds earlier AUCs (or
// accuracies, or losses), oldest first, for the small curve.
std::vector<std::string> RenderTable(const std::string& status_json, const std::vector<double>& history,
                                     size_t columns, bool colour);
// "  12 s  running  events 480,128 (40,211/s)  loss 0.0921  auc 0.9312 of 0.9391 …"
std::string RenderLine(const std::string& status_json);
// The lines printed at the end of a job.
std::string RenderSummary(const std::string& summary_json);

// What the figures of a job with bots mean. Taken from the job's own settings.
struct StartNotes {
  uint64_t bot_events = 0;
  double bot_rate = 0;  // events/s, 0: as fast as possible
  uint64_t window = 0;  // events that loss, accuracy and AUC cover
  bool auc = false;     // the model's task has an AUC
  bool servers = true;  // the strategy has servers
};
// The lines printed at the start of such a job.
std::vector<std::string> RenderStart(const StartNotes& notes);

class Display {
 public:
  // Live when `out` is a terminal, otherwise a line every few seconds.
  explicit Display(std::FILE* out);
  ~Display();
  void Show(const std::string& status_json);
  // A message that stays on the screen, above the table.
  void Say(const std::string& line);
  // Takes the table away; nothing is drawn after it.
  void Finish();

 private:
  void Clear();

  std::FILE* out_;
  bool live_;
  size_t drawn_ = 0;  // lines of the table on the screen
  std::vector<double> history_;
  double last_line_s_ = -1e9;
};

}  // namespace leat::train
