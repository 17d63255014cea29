#include "report/display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/json/text.h"
#include "report/grouped.h"
#include "topology/host_place.h"

namespace leat::report {
namespace {

using Json = nlohmann::json;

constexpr double kLineInterval_s = 2;
// Maximum number of samples of the curve; at the maximum, every second one is dropped.
constexpr size_t kHistory = 2048;

std::string GroupedText(double x) {
  return (x < 0 ? "-" : "") + report::Grouped(static_cast<uint64_t>(std::llround(std::abs(x))));
}

std::string Fixed(const Json& x, int decimals) {
  if (!x.is_number()) return "–";
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, x.get<double>());
  return text;
}

std::string Field(const Json& status, const char* key, int decimals) {
  return status.contains(key) ? Fixed(status[key], decimals) : "–";
}

double Value(const Json& status, const char* key) {
  return status.contains(key) && status[key].is_number() ? status[key].get<double>() : std::nan("");
}

std::string Clock(double seconds) {
  const auto s = static_cast<int64_t>(std::max(0.0, seconds));
  char text[32];
  if (s >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", static_cast<long long>(s / 3600),
                  static_cast<long long>(s / 60 % 60), static_cast<long long>(s % 60));
  } else {
    std::snprintf(text, sizeof text, "%02lld:%02lld", static_cast<long long>(s / 60),
                  static_cast<long long>(s % 60));
  }
  return text;
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
std::pair<const char*, double> Main(const Json& status) {
  const double auc = Value(status, "auc"), possible = Value(status, "auc_possible");
  if (!std::isnan(auc) && possible > 0) return {"auc / possible", auc / possible};
  for (const char* key : {"auc", "accuracy", "loss"}) {
    const double x = Value(status, key);
    if (!std::isnan(x)) return {key, x};
  }
  return {"", std::nan("")};
}

std::string Quality(const Json& s) {
  std::string text = "loss " + Field(s, "loss", 4);
  if (!std::isnan(Value(s, "auc"))) {
    text += "   auc " + Field(s, "auc", 4);
    if (s.contains("auc_possible")) text += " of " + Field(s, "auc_possible", 4) + " possible";
  }
  if (s.contains("accuracy")) text += "   accuracy " + Field(s, "accuracy", 4);
  if (s.contains("mae")) text += "   mae " + Field(s, "mae", 4);
  return text;
}

// "3 alarms of adwin on error, the last at event 12,345 (mean before it 0.1234); learning rate × 3.00 now";
// "" without a detector.
std::string Drift(const Json& s) {
  const Json drift = s.value("drift", Json());
  if (!drift.is_object()) return "";
  const double alarms = Value(drift, "alarms");
  const std::string text = GroupedText(alarms) + (alarms == 1 ? " alarm of " : " alarms of ") +
                           drift.value("detector", "") + " on " + drift.value("on", "");
  const Json last = drift.value("last", Json());
  if (!last.is_object()) return text;
  return text + ", the last at event " + GroupedText(Value(last, "event")) + " (mean before it " +
         Field(last, "mean", 4) + ")" +
         (Value(drift, "rate") > 1 ? "; learning rate × " + Field(drift, "rate", 2) + " now" : "");
}

// "1.26 (99%: 4)"
std::string Staleness(const Json& s) {
  return Field(s, "staleness_mean", 2) +
         (s.contains("staleness_p99") ? " (99%: " + Field(s, "staleness_p99", 0) + ")" : "");
}

// Counts that are 0 in most jobs are shown only if they are not.
std::string Unusual(const Json& s, const char* key, const char* words) {
  const double count = Value(s, key);
  return count > 0 ? "   " + std::string(words) + " " + GroupedText(count) : "";
}
std::string Unusual(const Json& s, const char* key) {
  return Unusual(s, key, key);
}

// "12,000 published, 3,000 behind, 40 scored again"; "" if the job publishes none.
std::string Predictions(const Json& s) {
  const Json predictions = s.value("predictions", Json::object());
  if (predictions.empty()) return "";
  const auto count = [&](const char* key) { return predictions.value(key, 0.0); };
  std::string text = GroupedText(count("published")) + " published";
  if (count("behind") > 0) text += ", " + GroupedText(count("behind")) + " behind";
  if (count("rescored") > 0) text += ", " + GroupedText(count("rescored")) + " scored again";
  return text;
}

bool StandsBy(const Json& member) {
  return member.value("state", "") == "standby";
}

// Whether other numbers of members are wanted than a job that trains has.
bool Lacks(const Json& s, const Json& wanted) {
  const std::string phase = s.value("phase", "");
  if (phase != "running" && phase != "paused") return false;
  double workers = 0, servers = 0;
  for (const auto& m : s.value("members", Json::array())) {
    if (!m.is_object()) continue;
    workers += m.value("role", "") == "worker" && !StandsBy(m) ? 1 : 0;
    servers += m.value("role", "") == "ps" ? 1 : 0;
  }
  return wanted.value("workers", workers) != workers || wanted.value("ps", servers) != servers;
}

// "4 workers, 2 ps" if the autoscaler chooses or the hook has failed, and with `lacking` if the job has other
// numbers; "" in other jobs.
std::string Wanted(const Json& s, bool lacking) {
  const Json wanted = s.value("wanted", Json());
  if (!wanted.is_object()) return "";
  const std::string failure = wanted.value("hook_failure", "");
  if (!wanted.contains("range") && failure.empty() && !(lacking && Lacks(s, wanted))) return "";
  std::string text = wanted.contains("workers") ? Field(wanted, "workers", 0) + " workers, " : "";
  text += Field(wanted, "ps", 0) + " ps";
  return text + (failure.empty() ? "" : "; the hook failed: " + failure);
}

// What the job waits for, or why the last checkpoint failed; "" in most jobs.
std::string Trouble(const Json& s) {
  if (s.contains("waiting_for")) return "waiting for " + s.value("waiting_for", "");
  if (s.contains("checkpoint_failure")) return "last checkpoint failed: " + s.value("checkpoint_failure", "");
  return "";
}

// "ps 0", "standby 0"
std::string NameOf(const Json& member) {
  return (StandsBy(member) ? "standby" : member.value("role", "")) + " " +
         std::to_string(member.value("index", 0));
}

// "  north/a (cores)"; empty: it is not known.
std::string PlaceOf(const Json& member) {
  const topology::HostPlace place{member.value("site", ""), member.value("zone", ""),
                                  member.value("class", "")};
  return place == topology::HostPlace() ? "" : "  " + topology::PlaceText(place);
}

bool Slow(const Json& member) {
  return member.contains("slow") && member["slow"].is_boolean() && member["slow"].get<bool>();
}

// "label skew 0.42, feature skew 0.93 (amount)" of a worker with a warning about them; "" of others.
std::string Skew(const Json& member) {
  if (!member.contains("skewed") || member["skewed"] != true) return "";
  std::string text = "label skew " + Field(member, "label_skew", 2);
  const Json feature = member.value("skewed_feature", Json());
  if (feature.is_string())
    text += ", feature skew " + Field(member, "feature_skew", 2) + " (" + feature.get<std::string>() + ")";
  return text;
}

// What keeps members from their work, and shares that are skewed: "ps 0 is stuck", "worker 1 cannot reach
// ps 1, ps 2".
std::vector<std::string> MemberTroubles(const Json& s) {
  std::vector<std::string> troubles;
  for (const auto& m : s.value("stuck_evicted", Json::array())) {
    troubles.push_back(m.value("role", "") + " " + std::to_string(m.value("index", 0)) +
                       " was evicted and is stuck");
  }
  for (const auto& m : s.value("members", Json::array())) {
    const std::string name = NameOf(m);
    if (m.value("stuck", false)) troubles.push_back(name + " is stuck");
    std::string peers;
    for (const auto& peer : m.value("unreachable", Json::array())) {
      if (peer.is_string()) peers += (peers.empty() ? "" : ", ") + peer.get<std::string>();
    }
    if (!peers.empty()) troubles.push_back(name + " cannot reach " + peers);
    if (const std::string skew = Skew(m); !skew.empty()) troubles.push_back(name + ": " + skew);
  }
  return troubles;
}

}  // namespace

std::vector<std::string> RenderTable(const std::string& status_json, const std::vector<double>& history,
                                     size_t columns, bool colour) {
  const Json s = ParsedJson(status_json);
  if (!s.is_object()) return {};
  const auto bold = [&](const std::string& text) { return colour ? "\x1b[1m" + text + "\x1b[0m" : text; };
  const auto dim = [&](const std::string& text) { return colour ? "\x1b[2m" + text + "\x1b[0m" : text; };
  const size_t width = std::min<size_t>(columns > 2 ? columns - 1 : 1, 90);
  std::string rule;
  for (size_t i = 0; i < width; ++i) rule += "─";

  std::vector<std::string> lines;
  lines.push_back(
      bold(Cut("leat · " + s.value("job", "") + " · " + s.value("phase", "") + " · " +
                   Clock(Value(s, "wall_s")) + " · generation " + std::to_string(s.value("generation", 0)),
               width)));
  lines.push_back(dim(rule));
  lines.push_back(Cut("events " + Pad(GroupedText(s.value("events", 0.0)), 13) + "  " +
                          Pad(GroupedText(s.value("events_per_s_now", 0.0)) + "/s", 12) + "  lag " +
                          Pad(GroupedText(s.value("lag", 0.0)), 11) + "  published " +
                          GroupedText(s.value("published", 0.0)),
                      width));
  lines.push_back(Cut(Quality(s), width));
  lines.push_back(Cut(s.value("strategy", "async") + ": staleness " + Staleness(s) + "   steps " +
                          GroupedText(s.value("steps", 0.0)) + Unusual(s, "late") + Unusual(s, "skipped") +
                          "   leased again " + GroupedText(s.value("regranted_leases", 0.0)) +
                          "   dead letters " + GroupedText(s.value("dead_letters", 0.0)) +
                          Unusual(s, "lost_to_retention", "lost to retention"),
                      width));
  if (const std::string predictions = Predictions(s); !predictions.empty())
    lines.push_back(Cut("predictions " + predictions, width));
  if (const std::string drift = Drift(s); !drift.empty()) lines.push_back(Cut("drift: " + drift, width));
  if (const std::string wanted = Wanted(s, true); !wanted.empty())
    lines.push_back(Cut("wanted: " + wanted, width));
  if (const Json wanted = s.value("wanted", Json()); wanted.is_object() && wanted.contains("reason"))
    lines.push_back(Cut("autoscaler: " + wanted.value("reason", ""), width));
  for (const auto& warning : s.value("warnings", Json::array())) {
    if (warning.is_string()) lines.push_back(bold(Cut("warning: " + warning.get<std::string>(), width)));
  }
  if (const std::string trouble = Trouble(s); !trouble.empty()) lines.push_back(bold(Cut(trouble, width)));
  for (const std::string& trouble : MemberTroubles(s)) lines.push_back(bold(Cut(trouble, width)));
  if (const auto [name, now] = Main(s); !std::isnan(now) && history.size() >= 2) {
    const std::string label = std::string(name) + " ";
    lines.push_back(Cut(label + Curve(history, width - std::min(width, label.size())), width));
  }
  lines.push_back(dim(rule));
  lines.push_back(dim(Cut(Pad("member", 16) + Pad("pid", 9, true) + Pad("done", 15, true) +
                              Pad("cpu s", 9, true) + Pad("held MB", 10, true) + Pad("MB/s", 9, true),
                          width)));
  for (const auto& m : s.value("members", Json::array())) {
    const std::string held =
        m.contains("bytes_held") ? Fixed(Json(m["bytes_held"].get<double>() / 1e6), 2) : "";
    const double bytes_per_s = Value(m, "bytes_per_s");
    const std::string traffic = std::isnan(bytes_per_s) ? "" : Fixed(Json(bytes_per_s / 1e6), 1);
    lines.push_back(Cut(Pad(NameOf(m), 16) + Pad(std::to_string(m.value("pid", int64_t{0})), 9, true) +
                            Pad(GroupedText(m.value("done", 0.0)), 15, true) +
                            Pad(Field(m, "cpu_s", 1), 9, true) + Pad(held, 10, true) + Pad(traffic, 9, true) +
                            PlaceOf(m) + (Slow(m) ? "  slow" : "") +
                            (m.value("state", "") == "draining" ? "  leaving" : ""),
                        width));
  }
  lines.push_back(dim(rule));
  const std::string checkpoint = s.contains("checkpoint") && s["checkpoint"].is_string()
                                     ? s["checkpoint"].get<std::string>()
                                     : "none yet";
  lines.push_back(dim(Cut("checkpoint " + checkpoint, width)));
  return lines;
}

std::string RenderLine(const std::string& status_json) {
  const Json s = ParsedJson(status_json);
  if (!s.is_object()) return "";
  size_t servers = 0, workers = 0, standby = 0;
  std::string trouble;
  for (const std::string& one : MemberTroubles(s)) trouble += "   " + one;
  for (const auto& m : s.value("members", Json::array())) {
    const std::string role = m.value("role", "");
    servers += role == "ps" ? 1 : 0;
    workers += role == "worker" && !StandsBy(m) ? 1 : 0;
    standby += StandsBy(m) ? 1 : 0;
  }
  return Clock(Value(s, "wall_s")) + "  " + s.value("phase", "") + "  events " +
         GroupedText(s.value("events", 0.0)) + " (" + GroupedText(s.value("events_per_s_now", 0.0)) +
         "/s)  " + Quality(s) + "   staleness " + Field(s, "staleness_mean", 2) + "   lag " +
         GroupedText(s.value("lag", 0.0)) + "   " + std::to_string(workers) + " workers, " +
         (standby > 0 ? std::to_string(standby) + " standby, " : "") + std::to_string(servers) + " ps" +
         (Wanted(s, false).empty() ? "" : "   wanted: " + Wanted(s, false)) +
         (Drift(s).empty() ? "" : "   drift: " + Drift(s)) + (Trouble(s).empty() ? "" : "   " + Trouble(s)) +
         trouble;
}

std::string RenderSummary(const std::string& summary_json) {
  const Json s = ParsedJson(summary_json);
  if (!s.is_object()) return "";
  std::string text;
  const auto row = [&](const std::string& name, const std::string& value) {
    text += "  " + Pad(name, 22) + value + "\n";
  };
  text += "job '" + s.value("job", "") + "' " + s.value("phase", "") + "\n";
  row("events", GroupedText(s.value("events", 0.0)) + " in every slice, each once");
  row("speed", GroupedText(s.value("events_per_s", 0.0)) + " events/s, " +
                   GroupedText(s.value("steps", 0.0)) + " steps");
  row("loss", Field(s, "loss", 4) + " over the last " + GroupedText(s.value("window", 0.0)) +
                  " events, scored before training on them");
  if (!std::isnan(Value(s, "auc"))) {
    row("AUC", Field(s, "auc", 4) +
                   (s.contains("auc_possible") ? " of " + Field(s, "auc_possible", 4) + " possible" : ""));
  }
  if (s.contains("accuracy")) row("accuracy", Field(s, "accuracy", 4));
  if (const std::string predictions = Predictions(s); !predictions.empty()) row("predictions", predictions);
  if (s.contains("mae")) row("mean absolute error", Field(s, "mae", 4));
  // For those who look at the course of a run.
  const bool prequential = s.contains("fading") || s.contains("drift");
  if (const Json all = s.value("since_start", Json()); prequential && all.is_object()) {
    row("since the start", Quality(all) + " over " + GroupedText(Value(all, "events")) + " events");
  }
  if (const Json fading = s.value("fading", Json()); fading.is_object())
    row("with fading " + Field(fading, "factor", 4), Quality(fading));
  if (const std::string drift = Drift(s); !drift.empty()) row("drift", drift);
  if (s.contains("test_accuracy")) row("test accuracy", Field(s, "test_accuracy", 4));
  if (s.contains("test_loss")) {
    row("test loss",
        Field(s, "test_loss", 4) + " over " + GroupedText(s.value("test_rows", 0.0)) + " rows" +
            (s.contains("test_dead_letters")
                 ? ", " + GroupedText(s["test_dead_letters"].get<double>()) + " did not fit the schema"
                 : ""));
  }
  row("strategy",
      s.value("strategy", "async") + (Value(s, "step") > 0 ? ", step " + GroupedText(Value(s, "step")) : ""));
  row("staleness", Field(s, "staleness_mean", 2) + " updates on average" +
                       (s.contains("staleness_p99") ? ", 99% at most " + Field(s, "staleness_p99", 0) : ""));
  if (Value(s, "late") > 0) row("late", GroupedText(Value(s, "late")) + " runs, trained in another step");
  if (Value(s, "skipped") > 0)
    row("skipped", GroupedText(Value(s, "skipped")) + " updates that were not finite");
  std::string slow, skewed;
  for (const auto& m : s.value("members", Json::array())) {
    if (!m.is_object()) continue;
    const auto name = [&m] { return m.value("role", "") + " " + std::to_string(m.value("index", 0)); };
    if (Slow(m)) slow += (slow.empty() ? "" : ", ") + name() + " (" + Field(m, "step_ms", 1) + " ms a step)";
    if (const std::string skew = Skew(m); !skew.empty())
      skewed += (skewed.empty() ? "" : "; ") + name() + ": " + skew;
  }
  if (!slow.empty()) row("slow", slow);
  if (!skewed.empty()) row("skew", skewed);
  for (const auto& warning : s.value("warnings", Json::array())) {
    if (warning.is_string()) row("warning", warning.get<std::string>());
  }
  if (s.value("dead_letters", 0.0) > 0) row("dead letters", GroupedText(s.value("dead_letters", 0.0)));
  if (s.value("lost_to_retention", 0.0) > 0)
    row("lost to retention", GroupedText(s.value("lost_to_retention", 0.0)));
  row("time", Fixed(s.value("wall_s", Json()), 1) + " s, " +
                  Fixed(s.value("aggregated_compute_s", Json()), 1) + " s of CPU time");
  row("checkpoint",
      s.contains("checkpoint") && s["checkpoint"].is_string() ? s["checkpoint"].get<std::string>() : "none");
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

void Display::Show(const std::string& status_json) {
  const Json s = ParsedJson(status_json);
  if (!s.is_object()) return;
  if (!live_) {
    const double now = Value(s, "wall_s");
    if (now - last_line_s_ < kLineInterval_s) return;
    last_line_s_ = now;
    std::fprintf(out_, "%s\n", RenderLine(status_json).c_str());
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
  for (const auto& line : RenderTable(status_json, history_, columns, true)) {
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

}  // namespace leat::report
