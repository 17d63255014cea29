#include "show/report/display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "protocol/topology/host_place.h"

namespace leat::report {
namespace {

constexpr double kLineInterval_s = 2;
// Maximum number of samples of the curve; at the maximum, every second one is dropped.
constexpr size_t kHistory = 2048;

std::string GroupedText(double x) {
  return (x < 0 ? "-" : "") + Grouped(static_cast<uint64_t>(std::llround(std::abs(x))));
}

std::string Fixed(double x, int decimals) {
  return std::isnan(x) ? "–" : Formatted("%.*f", decimals, x);
}

std::string Clock(double seconds) {
  const auto s = static_cast<long long>(std::max(0.0, seconds));
  if (s < 3600) return Formatted("%02lld:%02lld", s / 60, s % 60);
  return Formatted("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

// The number of characters on the screen, which differs from the number of bytes.
size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string Pad(std::string text, size_t width, bool right = false) {
  const size_t have = Width(text);
  if (have >= width) return text;
  return right ? std::string(width - have, ' ') + text : text + std::string(width - have, ' ');
}

// Cuts at the end of a character.
std::string Cut(const std::string& text, size_t columns) {
  size_t shown = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (shown++ == columns) return text.substr(0, i);
  }
  return text;
}

// Draws the whole history with at most `columns` bars, each the mean of its samples.
std::string Curve(const std::vector<double>& history, size_t columns) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (history.size() < 2 || columns == 0) return "";
  const size_t bars = std::min(columns, history.size());
  std::vector<double> means;
  for (size_t bar = 0; bar < bars; ++bar) {
    const auto begin = history.begin() + static_cast<ptrdiff_t>(bar * history.size() / bars);
    const auto end = history.begin() + static_cast<ptrdiff_t>((bar + 1) * history.size() / bars);
    means.push_back(std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin));
  }
  const auto [low, high] = std::ranges::minmax(means);
  std::string curve;
  for (double x : means) {
    const double share = high > low ? (x - low) / (high - low) : 0.5;
    curve += kBars[static_cast<size_t>(std::clamp(share * 7.0, 0.0, 7.0) + 0.5)];
  }
  return curve;
}

// The figure of the curve: AUC as a share of the possible AUC, or else AUC, accuracy or loss.
std::pair<const char*, double> Main(const JobStatus& s) {
  const double auc = s.quality.auc, possible = s.auc_possible.value_or(kUnknown);
  if (!std::isnan(auc) && possible > 0) return {"auc / possible", auc / possible};
  if (!std::isnan(auc)) return {"auc", auc};
  if (const double accuracy = s.quality.accuracy.value_or(kUnknown); !std::isnan(accuracy))
    return {"accuracy", accuracy};
  return {"loss", s.quality.loss};
}

// "0.9312 of 0.9391 possible"
std::string Auc(const Quality& q, const std::optional<double>& possible) {
  return Fixed(q.auc, 4) + (possible ? " of " + Fixed(*possible, 4) + " possible" : "");
}

std::string QualityText(const Quality& q, const std::optional<double>& possible = {}) {
  std::string text = "loss " + Fixed(q.loss, 4);
  if (!std::isnan(q.auc)) text += "   auc " + Auc(q, possible);
  if (q.accuracy) text += "   accuracy " + Fixed(*q.accuracy, 4);
  if (q.mae) text += "   mae " + Fixed(*q.mae, 4);
  return text;
}

// "3 alarms of adwin on error, the last at event 12,345 (mean before it 0.1234); learning rate × 3.00 now";
// "" without a detector.
std::string Drift(const JobStatus& s) {
  if (!s.drift) return "";
  const DriftStatus& drift = *s.drift;
  const std::string text = Grouped(drift.alarms) + (drift.alarms == 1 ? " alarm of " : " alarms of ") +
                           drift.detector + " on " + drift.on;
  if (!drift.last) return text;
  return text + ", the last at event " + Grouped(drift.last->event) + " (mean before it " +
         Fixed(drift.last->mean, 4) + ")" +
         (drift.rate > 1.0 ? "; learning rate × " + Fixed(*drift.rate, 2) + " now" : "");
}

// Counts that are 0 in most jobs are shown only if they are not.
std::string Unusual(uint64_t count, const char* words) {
  return count > 0 ? "   " + std::string(words) + " " + Grouped(count) : "";
}

// "12,000 published, 3,000 behind, 40 scored again"; "" if the job publishes none.
std::string Predictions(const JobStatus& s) {
  if (!s.predictions) return "";
  std::string text = Grouped(s.predictions->published) + " published";
  if (s.predictions->behind > 0) text += ", " + Grouped(s.predictions->behind) + " behind";
  if (s.predictions->rescored > 0) text += ", " + Grouped(s.predictions->rescored) + " scored again";
  return text;
}

// "4 workers, 2 ps" if the autoscaler chooses or the hook has failed, and with `lacking` if a job that trains
// has other numbers; "" in other jobs.
std::string Wanted(const JobStatus& s, bool lacking) {
  if (!s.wanted) return "";
  const WantedStatus& wanted = *s.wanted;
  const size_t workers = s.Count("worker"), servers = s.Count("ps");
  const bool lacks = (s.phase == "running" || s.phase == "paused") &&
                     (wanted.workers.value_or(workers) != workers || wanted.ps.value_or(servers) != servers);
  if (!wanted.range && wanted.hook_failure.empty() && !(lacking && lacks)) return "";
  return (wanted.workers ? std::to_string(*wanted.workers) + " workers, " : "") +
         std::to_string(wanted.ps.value_or(0)) + " ps" +
         (wanted.hook_failure.empty() ? "" : "; the hook failed: " + wanted.hook_failure);
}

// Reason why the job waits, or why the last checkpoint failed; "" in most jobs.
std::string Trouble(const JobStatus& s) {
  if (!s.waiting_for.empty()) return "waiting for " + s.waiting_for;
  return s.checkpoint_failure.empty() ? "" : "last checkpoint failed: " + s.checkpoint_failure;
}

// "  north/a (cores)"; empty: it is not known.
std::string PlaceOf(const MemberStatus& member) {
  const topology::HostPlace place{member.site, member.zone, member.host_class};
  return place == topology::HostPlace() ? "" : "  " + topology::PlaceText(place);
}

// "label skew 0.42, feature skew 0.93 (amount)" of a worker with a warning about them; "" of others.
std::string Skew(const MemberStatus& member) {
  if (!member.worker || !member.worker->skewed.value_or(false)) return "";
  const WorkerFigures& worker = *member.worker;
  std::string text = "label skew " + Fixed(worker.label_skew.value_or(kUnknown), 2);
  if (!worker.skewed_feature.empty())
    text += ", feature skew " + Fixed(worker.feature_skew.value_or(kUnknown), 2) + " (" +
            worker.skewed_feature + ")";
  return text;
}

// Obstacles to members' work, and skewed shares, each as a line: "ps 0 is stuck", "worker 1 cannot reach
// ps 1, ps 2".
std::vector<std::string> MemberTroubles(const JobStatus& s) {
  std::vector<std::string> troubles;
  for (const auto& m : s.stuck_evicted) troubles.push_back(m.name.Text() + " was evicted and is stuck");
  for (const auto& m : s.members) {
    const std::string name = m.name.Text();
    if (m.stuck) troubles.push_back(name + " is stuck");
    if (!m.unreachable.empty()) troubles.push_back(name + " cannot reach " + Joined(m.unreachable));
    if (const std::string skew = Skew(m); !skew.empty()) troubles.push_back(name + ": " + skew);
  }
  return troubles;
}

constexpr uint64_t kMebi = 1 << 20;
constexpr double kLongestLimit_s = 1e6;

}  // namespace

std::vector<std::string> RenderTable(const JobStatus& s, const std::vector<double>& history, size_t columns,
                                     bool colour) {
  const auto bold = [&](const std::string& text) { return colour ? "\x1b[1m" + text + "\x1b[0m" : text; };
  const auto dim = [&](const std::string& text) { return colour ? "\x1b[2m" + text + "\x1b[0m" : text; };
  const size_t width = std::min<size_t>(columns > 2 ? columns - 1 : 1, 90);
  std::string rule;
  for (size_t i = 0; i < width; ++i) rule += "─";

  std::vector<std::string> lines;
  const auto add = [&](const std::string& text) { lines.push_back(Cut(text, width)); };
  const auto add_known = [&](const std::string& title, const std::string& text) {
    if (!text.empty()) add(title + text);
  };
  const auto add_trouble = [&](const std::string& text) { lines.push_back(bold(Cut(text, width))); };
  add_trouble("leat · " + s.job + " · " + s.phase + " · " + Clock(s.wall_s) + " · generation " +
              std::to_string(s.generation));
  lines.push_back(dim(rule));
  add("events " + Pad(Grouped(s.events), 13) + "  " + Pad(GroupedText(s.events_per_s_now) + "/s", 12) +
      "  lag " + Pad(Grouped(s.lag), 11) + "  published " + Grouped(s.published));
  add(QualityText(s.quality, s.auc_possible));
  add(s.strategy + ": staleness " + Fixed(s.staleness_mean, 2) +
      (std::isnan(s.staleness_mean) ? "" : " (99%: " + std::to_string(s.staleness_p99) + ")") + "   steps " +
      Grouped(s.steps) + Unusual(s.late, "late") + Unusual(s.skipped, "skipped") + "   leased again " +
      Grouped(s.regranted_leases) + "   dead letters " + Grouped(s.dead_letters) +
      Unusual(s.lost_to_retention, "lost to retention"));
  add_known("predictions ", Predictions(s));
  add_known("drift: ", Drift(s));
  add_known("wanted: ", Wanted(s, true));
  if (s.wanted && s.wanted->reason) add("autoscaler: " + *s.wanted->reason);
  for (const std::string& warning : s.warnings) add_trouble("warning: " + warning);
  if (const std::string trouble = Trouble(s); !trouble.empty()) add_trouble(trouble);
  for (const std::string& trouble : MemberTroubles(s)) add_trouble(trouble);
  if (const auto [name, now] = Main(s); !std::isnan(now) && history.size() >= 2) {
    const std::string label = std::string(name) + " ";
    add(label + Curve(history, width - std::min(width, label.size())));
  }
  lines.push_back(dim(rule));
  lines.push_back(dim(Cut(Pad("member", 16) + Pad("pid", 9, true) + Pad("done", 15, true) +
                              Pad("cpu s", 9, true) + Pad("held MB", 10, true) + Pad("MB/s", 9, true),
                          width)));
  for (const auto& m : s.members) {
    const auto megabytes = [&m](auto ServerFigures::*bytes, int decimals) {
      return m.server ? Fixed(static_cast<double>((*m.server).*bytes) / 1e6, decimals) : "";
    };
    add(Pad(m.name.Text(), 16) + Pad(std::to_string(m.pid), 9, true) +
        Pad(Grouped(m.done.value_or(0)), 15, true) + Pad(Fixed(m.cpu_s.value_or(kUnknown), 1), 9, true) +
        Pad(megabytes(&ServerFigures::bytes_held, 2), 10, true) +
        Pad(megabytes(&ServerFigures::bytes_per_s, 1), 9, true) + PlaceOf(m) +
        (m.worker && m.worker->slow ? "  slow" : "") + (m.name.state == "draining" ? "  leaving" : ""));
  }
  lines.push_back(dim(rule));
  lines.push_back(dim(Cut("checkpoint " + s.checkpoint.value_or("none yet"), width)));
  return lines;
}

std::string RenderLine(const JobStatus& s) {
  const auto known = [](const std::string& title, const std::string& text) {
    return text.empty() ? "" : "   " + title + text;
  };
  std::string trouble;
  for (const std::string& one : MemberTroubles(s)) trouble += "   " + one;
  const auto standby =
      std::ranges::count_if(s.members, [](const MemberStatus& m) { return m.name.standby(); });
  return Clock(s.wall_s) + "  " + s.phase + "  events " + Grouped(s.events) + " (" +
         GroupedText(s.events_per_s_now) + "/s)  " + QualityText(s.quality, s.auc_possible) +
         "   staleness " + Fixed(s.staleness_mean, 2) + "   lag " + Grouped(s.lag) + "   " +
         std::to_string(s.Count("worker")) + " workers, " +
         (standby > 0 ? std::to_string(standby) + " standby, " : "") + std::to_string(s.Count("ps")) + " ps" +
         known("wanted: ", Wanted(s, false)) + known("drift: ", Drift(s)) + known("", Trouble(s)) + trouble;
}

std::string RenderSummary(const JobStatus& s) {
  std::string text;
  const auto row = [&](const std::string& name, const std::string& value) {
    text += "  " + Pad(name, 22) + value + "\n";
  };
  const auto known = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) row(name, value);
  };
  const auto unusual = [&](const std::string& name, uint64_t count, const char* what = "") {
    if (count > 0) row(name, Grouped(count) + what);
  };
  text += "job '" + s.job + "' " + s.phase + "\n";
  row("events", Grouped(s.events) + " in every slice, each once");
  row("speed", GroupedText(s.events_per_s) + " events/s, " + Grouped(s.steps) + " steps");
  row("loss", Fixed(s.quality.loss, 4) + " over the last " + Grouped(s.window) +
                  " events, scored before training on them");
  if (!std::isnan(s.quality.auc)) row("AUC", Auc(s.quality, s.auc_possible));
  if (s.quality.accuracy) row("accuracy", Fixed(*s.quality.accuracy, 4));
  known("predictions", Predictions(s));
  if (s.quality.mae) row("mean absolute error", Fixed(*s.quality.mae, 4));
  // For those who look at the course of a run.
  if (s.since_start && (s.fading || s.drift))
    row("since the start",
        QualityText(s.since_start->quality) + " over " + Grouped(s.since_start->events) + " events");
  if (s.fading) row("with fading " + Fixed(s.fading->factor, 4), QualityText(s.fading->quality));
  known("drift", Drift(s));
  if (s.test) {
    if (s.test->test_accuracy) row("test accuracy", Fixed(*s.test->test_accuracy, 4));
    row("test loss", Fixed(s.test->test_loss, 4) + " over " + Grouped(s.test->test_rows) + " rows" +
                         (s.test->test_dead_letters
                              ? ", " + Grouped(*s.test->test_dead_letters) + " did not fit the schema"
                              : ""));
  }
  row("strategy", s.strategy + (s.step > 0 ? ", step " + Grouped(s.step) : ""));
  row("staleness",
      Fixed(s.staleness_mean, 2) + " updates on average" +
          (std::isnan(s.staleness_mean) ? "" : ", 99% at most " + std::to_string(s.staleness_p99)));
  unusual("late", s.late, " runs, trained in another step");
  unusual("skipped", s.skipped, " updates that were not finite");
  std::string slow, skewed;
  for (const auto& m : s.members) {
    if (m.worker && m.worker->slow)
      slow += (slow.empty() ? "" : ", ") + m.name.Text() + " (" + Fixed(m.worker->step_ms, 1) + " ms a step)";
    if (const std::string skew = Skew(m); !skew.empty())
      skewed += (skewed.empty() ? "" : "; ") + m.name.Text() + ": " + skew;
  }
  known("slow", slow);
  known("skew", skewed);
  for (const std::string& warning : s.warnings) row("warning", warning);
  unusual("dead letters", s.dead_letters);
  unusual("lost to retention", s.lost_to_retention);
  row("time", Fixed(s.wall_s, 1) + " s, " + Fixed(s.aggregated_compute_s, 1) + " s of CPU time");
  row("checkpoint", s.checkpoint.value_or("none"));
  return text;
}

std::vector<std::string> RenderStart(const StartNotes& notes) {
  std::string bots = "bots publish " + GroupedText(static_cast<double>(notes.bot_events)) + " events ";
  if (notes.bot_rate > 0) {
    bots += "at " + GroupedText(notes.bot_rate) +
            " a second: this sets the job's speed (--rate 0 removes the limit)";
  } else {
    bots += "as fast as possible";
  }
  return {bots,
          std::string(notes.auc ? "loss, accuracy and AUC" : "loss and accuracy") + " cover the last " +
              GroupedText(static_cast<double>(notes.window)) +
              " events, each scored before the model trains on it",
          "done: events trained (worker), " + std::string(notes.servers ? "gradient pushes (ps), " : "") +
              "events published (bots)"};
}

Display::Display(std::FILE* out) : out_(out), live_(isatty(fileno(out)) != 0) {}

Display::~Display() {
  Finish();
}

void Display::Clear() {
  if (drawn_ > 0) std::fprintf(out_, "\x1b[%zuA\x1b[J", drawn_);
  drawn_ = 0;
}

void Display::Show(const JobStatus& s) {
  if (!live_) {
    if (s.wall_s - last_line_s_ < kLineInterval_s) return;
    last_line_s_ = s.wall_s;
    std::fprintf(out_, "%s\n", RenderLine(s).c_str());
    std::fflush(out_);
    return;
  }
  if (const double x = Main(s).second; !std::isnan(x)) {
    history_.push_back(x);
    if (history_.size() > kHistory) {
      for (size_t i = 0; i < kHistory / 2; ++i) history_[i] = (history_[2 * i] + history_[2 * i + 1]) / 2;
      history_.resize(kHistory / 2);
    }
  }
  winsize size{};
  const size_t columns = ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  Clear();
  for (const auto& line : RenderTable(s, history_, columns, true)) {
    std::fprintf(out_, "%s\n", line.c_str());
    ++drawn_;
  }
  std::fflush(out_);
}

void Display::Say(const std::string& line) {
  Clear();
  std::fprintf(out_, "%s\n", line.c_str());
  std::fflush(out_);
}

void Display::Finish() {
  Clear();
  std::fflush(out_);
}

std::optional<std::string> AdminWait::OnStatus(Time now, const JobStatus& status) {
  heard_ = now;
  std::optional<uint64_t> checkpoint;
  uint64_t bytes = 0;
  std::string waiting_for = status.waiting_for;
  if (const auto& saving = status.saving) {
    checkpoint = saving->checkpoint;
    bytes = saving->bytes;
    limit_ = FromSeconds(std::clamp(saving->limit_s, 0.0, kLongestLimit_s));
    if (waiting_for.empty()) waiting_for = saving->waiting_for;
  }
  const bool news = checkpoint != checkpoint_ || waiting_for != waiting_for_;
  if (news || bytes != bytes_) moved_ = now;
  checkpoint_ = checkpoint;
  bytes_ = bytes;
  waiting_for_ = std::move(waiting_for);
  if (!checkpoint_) return std::nullopt;
  std::string line = "checkpoint " + std::to_string(*checkpoint_) + ": " + std::to_string(bytes_ / kMebi) +
                     " MiB saved, waiting for " + waiting_for_;
  if (line == shown_) return std::nullopt;
  shown_ = line;
  return line;
}

Status AdminWait::Check(Time now) const {
  const std::string what = checkpoint_ ? "checkpoint " + std::to_string(*checkpoint_) + " (" +
                                             std::to_string(bytes_ / kMebi) + " MiB saved)"
                                       : "the job";
  if (now - heard_ >= longest_) {
    if (!checkpoint_) {
      return silence_.ok() ? Status(Code::kDeadlineExceeded, "the coordinator does not answer") : silence_;
    }
    return {Code::kUnavailable,
            "the coordinator does not answer any more; " + what + " was waiting for " + waiting_for_};
  }
  if (const Duration still = now - moved_; still >= limit_ + kPatience) {
    return {Code::kDeadlineExceeded, what + " has made no progress for " +
                                         std::to_string(static_cast<int64_t>(Seconds(still))) +
                                         " s and goes on without this command" +
                                         (waiting_for_.empty() ? "" : ", waiting for " + waiting_for_)};
  }
  return {};
}

}  // namespace leat::report
