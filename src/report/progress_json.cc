#include "base/json/text.h"
#include "report/progress.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

namespace leat::report {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A worker is slow if its step takes this many times the usual step, and its steps take at least this share
// of its time: others do not wait for one that waits itself.
constexpr double kSlow = 1.5;
constexpr double kSlowShare = 0.1;

// Bots that have reported nothing for so long have ended.
constexpr Duration kBotsGone = std::chrono::seconds(5);

// The 99th percentile of staleness.
size_t Percentile99(const std::vector<uint64_t>& histogram) {
  uint64_t count = 0, so_far = 0;
  for (const uint64_t bin : histogram) count += bin;
  for (size_t i = 0; i < histogram.size(); ++i) {
    so_far += histogram[i];
    if (so_far * 100 >= count * 99) return i;
  }
  return 0;
}

// JSON has no NaN.
OrderedJson Number(double x) {
  return std::isfinite(x) ? OrderedJson(x) : OrderedJson(nullptr);
}

std::string_view PhaseName(protocol::CoordinatorStatus::Phase phase) {
  using Phase = protocol::CoordinatorStatus::Phase;
  switch (phase) {
    case Phase::kWaitingForServers:
      return "waiting for servers";
    case Phase::kWaitingForWorkers:
      return "waiting for workers";
    case Phase::kRunning:
      return "running";
    case Phase::kPaused:
      return "paused";
    case Phase::kStopping:
      return "stopping";
    case Phase::kEnded:
      return "ended";
  }
  return "?";
}

std::string_view HowName(protocol::CoordinatorStatus::Departure::How how) {
  using How = protocol::CoordinatorStatus::Departure::How;
  switch (how) {
    case How::kLeft:
      return "left";
    case How::kLost:
      return "lost";
    case How::kEvicted:
      return "evicted";
  }
  return "?";
}

double Ratio(uint64_t part, uint64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

// Entries keep the order in which they are added.
class Progress::JsonWriter {
 public:
  JsonWriter(const Progress& progress, Time now, const protocol::CoordinatorStatus& status)
      : progress_(progress), now_(now), status_(status) {}

  std::string Write(double own_cpu_seconds) {
    json_["job"] = progress_.options_.job;
    json_["phase"] = PhaseName(status_.phase);
    json_["strategy"] = progress_.options_.strategy;
    AddThroughput();
    AddLearning();
    AddUpdates();
    AddEvents();
    AddWanted();
    AddMembers();
    AddVariables();
    AddRun(own_cpu_seconds);
    // Host names and reasons of dead letters may contain invalid UTF-8.
    return JsonText(json_);
  }

 private:
  void AddThroughput() {
    json_["events"] = status_.events;
    const double training_s = TrainingSeconds();
    const uint64_t here = status_.events - std::min(status_.events, progress_.first_events_);
    json_["events_per_s"] = training_s > 0 ? std::round(static_cast<double>(here) / training_s) : 0.0;
    double speed = 0;
    const auto& recent = progress_.speed_;
    if (recent.size() >= 2 && now_ > recent.front().first) {
      speed = static_cast<double>(status_.events - std::min(status_.events, recent.front().second)) /
              Seconds(now_ - recent.front().first);
    }
    json_["events_per_s_now"] = std::round(speed);
  }

  // Means per event, or per label, by the names that River gives them.
  void AddFigures(double loss, double correct, double absolute_error, double auc, OrderedJson* json) const {
    const auto& options = progress_.options_;
    (*json)["loss"] = Number(loss);
    if (options.task == nn::Task::kBinary || options.task == nn::Task::kClasses)
      (*json)["accuracy"] = Number(correct / options.labels);
    if (options.task == nn::Task::kRegression) (*json)["mae"] = Number(absolute_error / options.labels);
    (*json)["auc"] = options.task == nn::Task::kBinary ? Number(auc) : OrderedJson(nullptr);
  }
  void AddFigures(const Totals& totals, OrderedJson* json) const {
    const auto events = static_cast<double>(totals.events);  // 0: no figure is a number
    AddFigures(totals.loss_sum / events, static_cast<double>(totals.correct) / events,
               totals.absolute_error / events, totals.scores.Auc(), json);
  }

  // Figures of the window, of the whole run, and with forgetting; steps are of the whole run.
  void AddLearning() {
    const Totals all = progress_.Sum();
    Totals window = all;
    json_["steps"] = window.steps;
    const Totals& before = progress_.moments_.front();
    window.events -= std::min(window.events, before.events);
    window.correct -= std::min(window.correct, before.correct);
    window.loss_sum -= before.loss_sum;
    window.absolute_error -= before.absolute_error;
    window.scores.Subtract(before.scores);
    window.truths.Subtract(before.truths);
    AddFigures(window, &json_);
    if (progress_.options_.truth) json_["auc_possible"] = Number(window.truths.Auc());
    json_["window"] = window.events;
    OrderedJson since_start{{"events", all.events}};
    AddFigures(all, &since_start);
    json_["since_start"] = std::move(since_start);
    AddPrequential();
  }

  void AddPrequential() {
    const Prequential& figures = progress_.prequential_;
    if (const auto* fading = figures.fading()) {
      OrderedJson json{{"factor", fading->factor}};
      AddFigures(fading->scores.loss(), fading->scores.correct(), fading->scores.absolute_error(),
                 fading->auc.Auc(), &json);
      json_["fading"] = std::move(json);
    }
    if (const auto& drift = progress_.options_.drift) {
      OrderedJson json{{"detector", drift->detector_name()},
                       {"on", metrics::Name(drift->on)},
                       {"alarms", figures.alarms()}};
      if (const auto& last = figures.last_alarm())
        json["last"] = {{"event", last->event}, {"mean", last->mean}};
      if (drift->alarm == metrics::DriftConfig::Alarm::kRaiseRate) json["rate"] = status_.rate;
      json_["drift"] = std::move(json);
    }
  }

  // Updates that servers and members have applied, and their staleness.
  void AddUpdates() {
    const Forgotten& forgotten = progress_.forgotten_;
    uint64_t staleness_sum = forgotten.staleness_sum, staleness_count = forgotten.staleness_count;
    uint64_t skipped = std::max(progress_.members_skipped_, forgotten.skipped);
    std::vector<uint64_t> histogram = forgotten.staleness;
    for (const auto& [node, server] : progress_.servers_) {
      skipped = std::max(skipped, server.skipped);  // every server counts the same skipped steps
      histogram.resize(std::max(histogram.size(), server.staleness.size()));
      for (size_t i = 0; i < server.staleness.size(); ++i) histogram[i] += server.staleness[i];
      staleness_sum += server.staleness_sum;
      staleness_count += server.staleness_count;
    }
    json_["staleness_mean"] = Ratio(staleness_sum, staleness_count);
    while (!histogram.empty() && histogram.back() == 0) histogram.pop_back();
    json_["staleness_p99"] = Percentile99(histogram);
    json_["staleness"] = histogram;
    json_["step"] = status_.step;
    if (status_.lanes > 0) json_["lanes"] = status_.lanes;
    json_["late"] = status_.late;
    json_["skipped"] = skipped;
    if (const auto& optimizer = progress_.options_.optimizer) {
      // Stepped strategies have one version for all slices.
      const uint64_t updates = std::max(progress_.updates_, status_.step);
      json_["learning_rate"] =
          double{optimizer->learning_rate} * optim::ShareAt(optimizer->schedule, updates + 1) * status_.rate;
    }
  }

  // Which servers have each variable.
  void AddVariables() {
    if (progress_.options_.table == nullptr) return;
    const protocol::SliceTable& table = *progress_.options_.table;
    std::map<NodeId, uint32_t> servers;
    for (const auto& member : status_.view.members) {
      if (member.role == protocol::Role::kServer) servers[member.node] = member.index;
    }
    std::vector<std::map<uint32_t, uint64_t>> bytes(table.variables.size());  // by server
    for (size_t i = 0; i < std::min(table.slices.size(), status_.view.slices.size()); ++i) {
      const auto server = servers.find(status_.view.slices[i].server);
      if (server == servers.end()) continue;
      bytes[table.slices[i].variable][server->second] += table.slices[i].elements() * sizeof(float);
    }
    OrderedJson variables = OrderedJson::array();
    for (size_t v = 0; v < bytes.size(); ++v) {
      OrderedJson parts = OrderedJson::array();
      for (const auto& [index, part] : bytes[v]) parts.push_back({{"index", index}, {"bytes", part}});
      const auto all = static_cast<uint64_t>(table.variables[v].shape.elements()) * sizeof(float);
      variables.push_back({{"name", table.variables[v].name}, {"bytes", all}, {"ps", std::move(parts)}});
    }
    json_["variables"] = std::move(variables);
  }

  // Position in the stream, and counts of events, leases and checkpoints.
  void AddEvents() {
    const Forgotten& forgotten = progress_.forgotten_;
    uint64_t duplicates = forgotten.duplicates, rejected = forgotten.rejected_batches,
             unjoined = forgotten.unjoined, lost = forgotten.lost_to_retention,
             feed_bytes = forgotten.feed_bytes, feed_retries = forgotten.feed_retries,
             push_retries = forgotten.push_retries;
    const DeadLetters dead = progress_.dead_letters(status_);
    uint64_t conflicts = forgotten.conflicts, bytes_moved = forgotten.bytes_moved;
    for (const auto& [node, server] : progress_.servers_) {
      duplicates += server.duplicates;
      conflicts += server.conflicts;
      bytes_moved += server.bytes_moved;
    }
    for (const auto& [node, worker] : progress_.workers_) {
      rejected += worker.rejected_batches;
      unjoined += worker.unjoined;
      lost += worker.lost_to_retention;
      feed_bytes += worker.feed_bytes;
      feed_retries += worker.feed_retries;
      push_retries += worker.push_retries;
    }
    json_["lag"] = status_.lag;
    AddLag();
    json_["stream_end"] = std::accumulate(status_.ends.begin(), status_.ends.end(), uint64_t{0});
    json_["published"] = progress_.published_;
    AddBots();
    if (const auto& predictions = status_.predictions) {
      json_["predictions"] = {{"published", predictions->published},
                              {"behind", predictions->behind},
                              {"rescored", predictions->rescored}};
    }
    if (status_.unlabelled) {
      json_["unlabelled"] = *status_.unlabelled;
      json_["unjoined"] = unjoined;
    }
    json_["dead_letters"] = dead.count;
    if (!dead.last.empty()) json_["last_dead_letter"] = dead.last;
    json_["lost_to_retention"] = lost;
    if (feed_bytes > 0) json_["feed_bytes"] = feed_bytes;
    if (feed_retries > 0) json_["feed_retries"] = feed_retries;
    if (push_retries > 0) json_["push_retries"] = push_retries;
    json_["rejected_batches"] = rejected;
    json_["duplicates"] = duplicates;
    json_["conflicts"] = conflicts;
    json_["leases"] = status_.leases;
    json_["regranted_leases"] = status_.regranted_leases;
    json_["overdue_leases"] = status_.overdue_leases;
    json_["evictions"] = status_.evictions;
    const auto& moves = status_.moves;
    if (moves.planned + moves.slices + moves.failed > 0) {
      json_["moves"] = {{"planned", moves.planned},
                        {"slices", moves.slices},
                        {"bytes", moves.bytes},
                        {"bytes_sent", bytes_moved},
                        {"failed", moves.failed}};
    }
    if (status_.replicas > 1) {
      json_["replicas"] = {{"slices", status_.replicated}, {"of", status_.view.slices.size()}};
      for (const auto& [servers, slices] : status_.replica_servers) {
        const auto *from = status_.view.Find(servers.first), *to = status_.view.Find(servers.second);
        if (from != nullptr && to != nullptr)
          json_["replicas"]["on"].push_back(
              {{"ps", from->index}, {"replica", to->index}, {"slices", slices}});
      }
    }
    json_["failed_checkpoints"] = status_.failed_checkpoints;
    if (!status_.checkpoint_failure.empty()) json_["checkpoint_failure"] = status_.checkpoint_failure;
    if (!status_.waiting_for.empty()) json_["waiting_for"] = status_.waiting_for;
    json_["generation"] = status_.view.generation.value;
    json_["term"] = protocol::NumberOf(status_.term);
  }

  void AddLag() {
    constexpr size_t kMostPartitions = 16;
    double oldest = 0;
    OrderedJson partitions = OrderedJson::array();
    for (const auto& behind : progress_.lag_.Behind(now_, kMostPartitions)) {
      oldest = std::max(oldest, behind.seconds);
      partitions.push_back({{"partition", behind.partition},
                            {"end", behind.end},
                            {"lag", behind.events},
                            {"lag_s", behind.seconds}});
    }
    json_["lag_s"] = oldest;
    if (!partitions.empty()) json_["partitions"] = std::move(partitions);
  }

  void AddWanted() {
    const auto& wanted = status_.wanted;
    if (!wanted.workers.valid()) return;  // nothing is known of it
    OrderedJson json;
    if (wanted.now() > 0) json["workers"] = wanted.now();
    if (!wanted.workers.fixed()) {
      json["range"] = protocol::ToString(wanted.workers);
      json["reason"] = wanted.reason;
    }
    json["ps"] = wanted.servers;
    if (status_.grant)
      json["granted"] = {{"workers", status_.grant->workers}, {"ps", status_.grant->servers}};
    if (!wanted.hook_failure.empty()) json["hook_failure"] = wanted.hook_failure;
    json_["wanted"] = std::move(json);
  }

  // They are no members of a view.
  void AddBots() {
    for (const auto& [node, bots] : progress_.nodes_) {
      if (bots.role != protocol::Role::kBots || bots.ends || now_ - bots.seen >= kBotsGone) continue;
      OrderedJson entry = {{"host", bots.host}, {"pid", bots.pid}, {"cpu_s", bots.cpu_seconds}};
      if (!bots.metrics.empty()) entry["metrics"] = bots.metrics;
      json_["bots"].push_back(std::move(entry));
    }
  }

  void AddMembers() {
    uint64_t held = 0;
    for (const auto& [node, server] : progress_.servers_) {
      if (status_.view.Find(node) != nullptr) held += server.bytes_held;
    }
    const double usual_s = progress_.UsualStep(status_.view);
    OrderedJson members = OrderedJson::array();
    for (const auto& member : status_.view.members) {
      OrderedJson m;
      m["role"] = protocol::Name(member.role);
      m["index"] = member.index;
      m["node"] = member.node.value;
      if (member.state == protocol::Member::State::kStandby) m["state"] = "standby";
      if (member.state == protocol::Member::State::kDraining) m["state"] = "draining";
      if (const auto n = progress_.nodes_.find(member.node); n != progress_.nodes_.end()) {
        m["host"] = n->second.host;
        m["pid"] = n->second.pid;
        m["done"] = n->second.done;
        m["cpu_s"] = n->second.cpu_seconds;
        if (!n->second.metrics.empty()) m["metrics"] = n->second.metrics;
        if (member.role == protocol::Role::kFeed) m["bytes_out"] = n->second.feed_bytes;
        if (member.role == protocol::Role::kServe) {
          m["bytes_in"] = n->second.follow.bytes_in;
          m["interval_s"] = n->second.follow.interval_seconds;
          m["stretched"] = n->second.follow.stretched;
          m["retries"] = n->second.follow.retries;
        }
        if (std::ranges::count(status_.stuck, member.node) > 0) m["stuck"] = true;
        for (const auto& [worker, peer] : status_.unreachable) {
          const protocol::Member* other = worker == member.node ? status_.view.Find(peer) : nullptr;
          if (other == nullptr) continue;
          m["unreachable"].push_back(protocol::Name(*other));
        }
      }
      AddPlace(member.node, &m);
      AddServer(member.node, held, &m);
      AddWorker(member.node, usual_s, &m);
      members.push_back(std::move(m));
    }
    json_["members"] = std::move(members);
    for (const auto& departure : status_.departures) {
      json_["departed"].push_back({{"number", departure.number},
                                   {"role", protocol::Name(departure.member.role)},
                                   {"index", departure.member.index},
                                   {"node", departure.member.node.value},
                                   {"how", HowName(departure.how)}});
    }
    for (const auto& [member, host, pid] : status_.stuck_evicted) {
      json_["stuck_evicted"].push_back({{"role", protocol::Name(member.role)},
                                        {"index", member.index},
                                        {"node", member.node.value},
                                        {"host", host},
                                        {"pid", pid},
                                        {"stuck", true}});
    }
  }

  void AddPlace(NodeId node, OrderedJson* m) const {
    (*m)["round_trip_ms"] = nullptr;  // not known yet
    const auto where =
        std::ranges::find(status_.whereabouts, node, &protocol::CoordinatorStatus::Whereabouts::node);
    if (where == status_.whereabouts.end()) return;
    if (where->round_trip > Duration(0)) (*m)["round_trip_ms"] = Seconds(where->round_trip) * 1e3;
    if (!where->place.site.empty()) (*m)["site"] = where->place.site;
    if (!where->place.zone.empty()) (*m)["zone"] = where->place.zone;
    if (!where->place.host_class.empty()) (*m)["class"] = where->place.host_class;
  }

  void AddServer(NodeId node, uint64_t held, OrderedJson* m) const {
    const auto server = progress_.servers_.find(node);
    if (server == progress_.servers_.end()) return;
    (*m)["bytes_held"] = server->second.bytes_held;
    (*m)["share"] = Ratio(server->second.bytes_held, held);
    (*m)["bytes_in"] = server->second.bytes_in;
    (*m)["bytes_out"] = server->second.bytes_out;
    (*m)["bytes_per_s"] = std::round(progress_.nodes_.at(node).bytes_per_s);
  }

  void AddWorker(NodeId node, double usual_s, OrderedJson* m) const {
    const auto worker = progress_.workers_.find(node);
    if (worker == progress_.workers_.end()) return;
    (*m)["steps"] = worker->second.steps;
    (*m)["compute_s"] = worker->second.compute_seconds;
    (*m)["wait_s"] = worker->second.wait_seconds;
    (*m)["longest_step_ms"] = worker->second.longest_step_seconds * 1e3;
    const auto& node_state = progress_.nodes_.at(node);
    (*m)["input_wait_s"] = worker->second.input_wait_seconds;
    (*m)["decode_s"] = worker->second.decode_seconds;
    (*m)["splits_ready"] = worker->second.splits_ready;
    (*m)["input_bytes"] = worker->second.input_bytes;
    (*m)["input_bytes_per_s"] = std::round(node_state.input_bytes_per_s);
    (*m)["input_events_per_s"] = std::round(node_state.records_per_s);
    if (worker->second.feed_bytes > 0) (*m)["feed_bytes"] = worker->second.feed_bytes;
    if (worker->second.feed_retries > 0) (*m)["feed_retries"] = worker->second.feed_retries;
    if (worker->second.push_retries > 0) (*m)["push_retries"] = worker->second.push_retries;
    if (worker->second.dead_letters > 0) (*m)["dead_letters"] = worker->second.dead_letters;
    if (!worker->second.last_dead_letter.empty()) (*m)["last_dead_letter"] = worker->second.last_dead_letter;
    const double step_s = node_state.step_s;
    (*m)["step_ms"] = step_s > 0 ? OrderedJson(step_s * 1e3) : OrderedJson(nullptr);
    (*m)["slow"] = step_s > kSlow * usual_s && node_state.busy_share >= kSlowShare;
    AddSkew(node, m);
  }

  void AddSkew(NodeId node, OrderedJson* m) const {
    const auto* skew = progress_.shares_ ? progress_.shares_->Find(node) : nullptr;
    if (skew == nullptr) return;
    (*m)["label_skew"] = Number(skew->label);
    (*m)["feature_skew"] = Number(skew->feature);
    if (!skew->feature_name.empty()) (*m)["skewed_feature"] = skew->feature_name;
    (*m)["skewed"] = skew->label_skewed || skew->feature_skewed;
  }

  void AddRun(double own_cpu_seconds) {
    double compute_s = own_cpu_seconds + progress_.forgotten_.cpu_seconds;
    for (const auto& [node, n] : progress_.nodes_) compute_s += n.cpu_seconds;
    json_["warnings"] = progress_.options_.warnings;
    for (const auto& [about, line] : status_.misplaced) json_["warnings"].push_back(line);
    if (!progress_.stream_warning_.empty()) json_["warnings"].push_back(progress_.stream_warning_);
    json_["skew_warnings"] = progress_.shares_ ? progress_.shares_->warnings() : 0;
    json_["wall_s"] = progress_.start_ < Time{0} ? 0.0 : Seconds(now_ - progress_.start_);
    json_["training_s"] = TrainingSeconds();
    json_["aggregated_compute_s"] = compute_s;
    json_["checkpoint"] =
        status_.checkpoint ? OrderedJson(status_.checkpoint_directory) : OrderedJson(nullptr);
    json_["directory"] = progress_.options_.directory;
    if (!progress_.options_.metrics.empty()) json_["metrics"] = progress_.options_.metrics;
    if (!progress_.options_.dashboard.empty()) json_["dashboard"] = progress_.options_.dashboard;
    if (const auto& saving = status_.saving) {
      json_["saving"] = {{"checkpoint", saving->id},
                         {"bytes", saving->bytes},
                         {"waiting_for", saving->waiting_for},
                         {"limit_s", Seconds(saving->limit)}};
    }
  }

  // The time until the number of applied events last grew.
  double TrainingSeconds() const {
    const Time start = progress_.training_start_;
    if (start < Time{0}) return 0;
    return Seconds((progress_.last_change_ > start ? progress_.last_change_ : now_) - start);
  }

  const Progress& progress_;
  const Time now_;
  const protocol::CoordinatorStatus& status_;
  OrderedJson json_;
};

std::string Progress::ToJson(Time now, const protocol::CoordinatorStatus& status,
                             double own_cpu_seconds) const {
  return JsonWriter(*this, now, status).Write(own_cpu_seconds);
}

}  // namespace leat::report
