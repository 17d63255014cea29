// A running job on a terminal: a live table, or plain lines, and the progress that a command waits for.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "show/report/job_status.h"

namespace leat::report {

// 1234567 → "1,234,567"
inline std::string Grouped(uint64_t n) {
  std::string digits = std::to_string(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

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

// Not thread-safe.
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

// How long a command waits for a checkpoint of a running job, and what it tells its user meanwhile.
//
// The coordinator answers when the checkpoint is complete, or when it gives the checkpoint up. The command
// waits for that as long as the coordinator answers questions about its status and the checkpoint makes
// progress. Pure; not thread-safe.
class AdminWait {
 public:
  // Beyond the checkpoint's own limit, or without one: at the end of a job members leave.
  static constexpr Duration kPatience = std::chrono::seconds(180);
  // The coordinator is lost after this long without a status.
  static constexpr Duration kSilence = std::chrono::seconds(10);

  explicit AdminWait(Time now, Duration silence = kSilence) : longest_(silence), heard_(now), moved_(now) {}

  // The coordinator's status. Returns a line for the user if there is news.
  std::optional<std::string> OnStatus(Time now, const JobStatus& status);
  // The coordinator has not answered.
  void OnSilence(Status why) { silence_ = std::move(why); }
  // Ok: go on waiting. Otherwise why not, and what the job is waiting for.
  Status Check(Time now) const;

 private:
  const Duration longest_;  // silence of the coordinator
  Time heard_;              // from the coordinator
  Time moved_;              // the checkpoint
  Status silence_;
  std::optional<uint64_t> checkpoint_;
  uint64_t bytes_ = 0;
  Duration limit_{};
  std::string waiting_for_;
  std::string shown_;
};

}  // namespace leat::report
