#include "serve/service.h"

#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "base/json/text.h"
#include "base/log.h"
#include "base/text.h"
#include "net/security/private_file.h"

namespace leat::serve {
namespace {

constexpr std::string_view kModels = "/v2/models/";
constexpr std::string_view kLive = "/v2/health/live", kReady = "/v2/health/ready", kServer = "/v2",
                           kPredict = "/v1/predict";

// "/v2/models/NAME/versions/V/infer".
struct ModelPath {
  std::string name, version, what;  // `what`: "", "ready", "infer"
};
std::optional<ModelPath> ParseModelPath(std::string_view path) {
  if (!path.starts_with(kModels) || path.ends_with('/')) return std::nullopt;
  path.remove_prefix(kModels.size());
  std::vector<std::string> parts;
  while (!path.empty()) {
    auto part = net::DecodePercent(TakeUntil("/", &path));
    if (!part || part->empty()) return std::nullopt;
    parts.push_back(std::move(*part));
  }
  ModelPath parsed{.name = parts[0], .version = {}, .what = {}};
  size_t at = 1;
  if (parts.size() >= at + 2 && parts[at] == "versions") {
    parsed.version = parts[at + 1];
    at += 2;
  }
  if (parts.size() == at + 1) parsed.what = parts[at++];
  const bool known = parsed.what.empty() || parsed.what == "ready" || parsed.what == "infer";
  if (at != parts.size() || !known) return std::nullopt;
  return parsed;
}

// For probes, which need no token.
bool IsHealth(std::string_view path) {
  return path == kLive || path == kReady;
}

http::Reply ErrorReply(int status, std::string_view why) {
  return {.status = status, .body = R"({"error":)" + JsonString(why) + "}"};
}

http::Reply WrongMethod(const char* allowed) {
  http::Reply reply = ErrorReply(405, std::string("the method must be ") + allowed);
  reply.headers = std::string("Allow: ") + allowed + "\r\n";
  return reply;
}

// The body of a reply of /v1/predict, {"score":0.03,"version":7,"age_seconds":0.08}, for a single event; with
// "scores", a list, if there is more than one for an event. Otherwise
// {"predictions":[{"score":0.03},{"error":"…"}],"version":…,…}, in the order of the events.
std::string PlainReply(const EventReader::Events& events, const Predictor::Answer& answer,
                       uint32_t scores_per_row, double age_seconds) {
  std::string out = "{";
  std::span<const float> rest = answer.scores;
  const auto append_row = [&] {
    const bool single = scores_per_row == 1;
    AppendJson(&out, single ? R"("score":)" : R"("scores":[)", rest.first(scores_per_row), single ? "" : "]");
    rest = rest.subspan(scores_per_row);
  };
  if (events.single) {
    append_row();
  } else {
    out += R"("predictions":[)";
    auto dead = events.rows.dead.begin();
    for (size_t event = 0; event < events.count; ++event) {
      out += event > 0 ? ",{" : "{";
      if (dead != events.rows.dead.end() && dead->offset == event) {
        AppendJson(&out, R"("error":)", JsonString(dead++->reason));
      } else {
        append_row();
      }
      out += '}';
    }
    out += ']';
  }
  AppendJson(&out, R"(,"version":)", answer.version.number, R"(,"age_seconds":)",
             static_cast<float>(age_seconds), "}\n");
  return out;
}

using Digest = std::array<unsigned char, 32>;

Digest DigestOf(std::string_view token) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

}  // namespace

Result<std::unique_ptr<Tokens>> Tokens::Load(std::string path) {
  std::unique_ptr<Tokens> tokens(new Tokens(std::move(path)));
  tokens->stamp_ = net::FileStamp(tokens->path_);
  LEAT_RETURN_IF_ERROR(tokens->Read());
  return tokens;
}

Status Tokens::Read() {
  LEAT_ASSIGN_OR_RETURN(const std::string text, net::ReadPrivateFile(path_));
  std::set<Digest> digests;
  std::string_view rest = text;
  for (size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = TakeUntil("\n", &rest);
    const std::string_view token = Trimmed(TakeUntil("#", &line));
    if (token.empty()) continue;
    const auto bad = [](char c) { return c <= ' ' || c >= '\x7f'; };
    const std::string where = path_ + ":" + std::to_string(number) + ": ";
    if (std::ranges::any_of(token, bad))
      return {Code::kInvalidArgument, where + "a token has no blanks, and only letters of ASCII"};
    if (token.size() < kLeastCharacters)
      return {Code::kInvalidArgument,
              where + "a token needs at least " + std::to_string(kLeastCharacters) + " characters"};
    digests.insert(DigestOf(token));
  }
  if (digests.empty()) return {Code::kInvalidArgument, path_ + ": there is no token in it"};
  digests_ = std::move(digests);
  return {};
}

bool Tokens::Accepts(std::string_view token, Time now) {
  constexpr Duration kLook = std::chrono::seconds(1);
  std::lock_guard lock(mutex_);
  if (now >= looked_ + kLook) {
    looked_ = now;
    std::string stamp = net::FileStamp(path_);
    if (stamp != stamp_) {
      stamp_ = std::move(stamp);
      const Status status = Read();
      if (!status.ok()) spdlog::warn("the former tokens stay valid: {}", status.message());
    }
  }
  return digests_.contains(DigestOf(token));
}

// A thread's part, which only it uses.
struct Service::Thread {
  std::vector<Predictor::Request> requests;  // requests of this round
  std::unique_ptr<EventReader> events;       // made with the first request after SetModel
};

struct Service::Model {
  Model(const job::Job& served, const engine::PlanOptions& plan, const Options& options,
        metrics::Registry& registry)
      : job(served),
        versions(job.Slices()),
        predictor({.model = job.model,
                   .plan = plan,
                   .max_batch = options.max_batch,
                   .max_wait = options.max_wait,
                   .max_waiting_rows = std::max<size_t>(256 * options.max_batch, options.max_rows)},
                  versions, registry),
        inference({.name = job.name,
                   .features = job.schema.features(),
                   .scores_per_row = predictor.scores_per_row()}) {}
  const job::Job job;
  Versions versions;
  Predictor predictor;
  const InferenceModel inference;
};

Service::Service(Options options, metrics::Registry& registry)
    : options_(std::move(options)),
      registry_(registry),
      rejected_events_(registry.counter("leat_serve_rejected_events_total",
                                        "Events that did not fit the schema, and got no prediction.")),
      seconds_(registry.histogram("leat_serve_request_seconds",
                                  "From the end of a request for predictions to its reply.")) {
  for (size_t i = 0; i < options_.threads; ++i) threads_.push_back(std::make_unique<Thread>());
}

Service::~Service() = default;

Status Service::SetModel(const job::Job& job, const engine::PlanOptions& plan) {
  const auto served = model_.load();
  if (served == nullptr) {
    model_ = std::make_shared<Model>(job, job.Plan(plan), options_, registry_);
    return {};
  }
  const auto parts = served->job.Identity(), others = job.Identity();
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& part = parts[i].first;
    const bool matters = part == "model" || part == "schema" || part == "schema.delimiter";
    if (!matters || parts[i] == others[i]) continue;
    return {Code::kFailedPrecondition,
            "job '" + job.name + "' has another " + part + " than the one that is served"};
  }
  // Slices follow from the model and the most servers that the job may have.
  if (served->job.Slices() == job.Slices()) return {};
  return {Code::kFailedPrecondition, "job '" + job.name + "' has other slices than the one that is served"};
}

Versions* Service::versions() const {
  const auto model = model_.load();
  return model != nullptr ? &model->versions : nullptr;
}

void Service::NotReady(std::string why) {
  std::lock_guard lock(mutex_);
  not_ready_ = std::move(why);
}

std::string Service::WhyNotReady() const {
  const auto model = model_.load();
  if (model == nullptr) return "the model is not known yet";
  return model->versions.newest() ? "" : "there are no parameters yet";
}

std::string Service::ReasonNotReady() const {
  std::lock_guard lock(mutex_);
  return not_ready_;
}

void Service::Stop() {
  if (const auto model = model_.load()) model->predictor.Stop();
}

bool Service::Computing() const {
  const auto model = model_.load();
  return model != nullptr && model->predictor.computing();
}

void Service::UpdateMetrics() {
  const auto model = model_.load();
  const auto version = model != nullptr ? model->versions.newest() : std::nullopt;
  if (!version) return;
  registry_.gauge("leat_serve_version", "Number of the newest version of the parameters.")
      .Set(static_cast<double>(version->number));
  registry_
      .gauge("leat_serve_age_seconds", "Time since its values were those of the job, for all that is known.")
      .Set(AgeOf(*version));
}

double Service::AgeOf(const Version& version) const {
  return std::max(0.0, Seconds(clock_.Now() - version.as_of));
}

http::Reply Service::FailedReply(const Status& status) const {
  const Code code = status.code();
  const int reply = code == Code::kInvalidArgument     ? 400
                    : code == Code::kResourceExhausted ? 413
                    : code == Code::kDeadlineExceeded  ? 504
                                                       : 503;
  return ErrorReply(reply, status.message());
}

http::Reply Service::Get(const Model* model, const std::string& path) {
  const auto ready = [](const std::string& why) {
    return why.empty() ? http::Reply{.body = "{\"ready\":true}\n"} : ErrorReply(503, why);
  };
  if (path == kLive) return {.body = "{\"live\":true}\n"};
  if (path == kReady) return ready(WhyNotReady());
  if (path == kServer) return {.body = ServerMetadata(options_.program_version)};
  if (model == nullptr) return ErrorReply(503, ReasonNotReady());
  if (ParseModelPath(path)->what == "ready") return ready(WhyNotReady().empty() ? "" : ReasonNotReady());
  const auto version = model->versions.newest();
  return {.body = ModelMetadata(model->inference, version ? std::optional(version->number) : std::nullopt)};
}

http::Admission Service::Admit(const net::RequestHead& head, net::CertificateRoles /*roles*/) {
  using Peer = http::Admission::Peer;
  if (IsHealth(head.path())) return {.body = false, .peer = Peer::kUnknown};
  if (options_.tokens == nullptr) return {};
  if (options_.tokens->Accepts(head.BearerToken(), clock_.Now())) return {.peer = Peer::kKnown};
  return {.refusal = ErrorReply(401, "a valid token is needed: Authorization: Bearer TOKEN")};
}

http::Reply Service::Error(int status, std::string_view why) const {
  return ErrorReply(status, why);
}

void Service::Handle(size_t thread_index, http::Request request, Exchange exchange) {
  Thread& thread = *threads_[thread_index];
  const std::string path(request.head.path());
  const auto fail = [&exchange](int status, std::string_view why) {
    exchange->Send(ErrorReply(status, why));
  };
  const auto model = model_.load();
  const auto of_model = ParseModelPath(path);
  if (of_model && model != nullptr) {
    if (of_model->name != model->inference.name) {
      return fail(404, "there is no model '" + of_model->name + "'; this is '" + model->inference.name + "'");
    }
    const auto newest = model->versions.newest();
    const std::string served = newest ? std::to_string(newest->number) : "none";
    if (!of_model->version.empty() && of_model->version != served) {
      return fail(404, "version '" + of_model->version + "' is not served; the version is now " + served);
    }
  }
  const bool predict = path == kPredict, infer = of_model && of_model->what == "infer";
  if (!predict && !infer) {
    if (!of_model && !IsHealth(path) && path != kServer) return fail(404, "there is no " + path);
    if (request.head.method != "GET") return exchange->Send(WrongMethod("GET, HEAD"));
    return exchange->Send(Get(model.get(), path));
  }
  if (request.head.method != "POST") return exchange->Send(WrongMethod("POST"));
  const std::string encoding(request.head.Header("content-encoding"));
  if (!encoding.empty() && encoding != "identity")
    return fail(415, "the content encoding '" + encoding + "' is not supported");
  if (model == nullptr) return fail(503, ReasonNotReady());
  if (thread.events == nullptr) thread.events = std::make_unique<EventReader>(model->job, options_.max_rows);
  predict ? Predict(*model, thread, request, std::move(exchange))
          : Infer(*model, thread, request, std::move(exchange));
}

void Service::Predict(Model& model, Thread& thread, const http::Request& request, Exchange exchange) {
  const auto read = thread.events->Read(request.head.Header("content-type"), request.body);
  if (!read.ok()) return exchange->Send(FailedReply(read.status()));
  stream::DecodedRows& decoded = (*read)->rows;
  rejected_events_.Add(decoded.dead.size());
  if ((*read)->single && !decoded.dead.empty())
    return exchange->Send(ErrorReply(400, decoded.dead[0].reason));
  const size_t rows = decoded.rows;
  // Parts of the events that the reply needs while it waits for its batch.
  EventReader::Events events{.single = (*read)->single, .count = (*read)->count};
  for (auto& dead : decoded.dead)
    events.rows.dead.push_back({.offset = dead.offset, .reason = std::move(dead.reason)});
  auto reply = [this, events = std::move(events),
                scores = model.predictor.scores_per_row()](const Predictor::Answer& answer) {
    return http::Reply{.body = PlainReply(events, answer, scores, AgeOf(answer.version))};
  };
  if (rows == 0) {
    const Version version = model.versions.newest().value_or(Version{});
    return exchange->Send(reply({.status = {}, .scores = {}, .version = version}));
  }
  Submit(thread, std::move(decoded.features), rows, std::move(exchange), std::move(reply));
}

void Service::Infer(Model& model, Thread& thread, const http::Request& request, Exchange exchange) {
  auto read = ReadInference(request.body, request.head.Header("inference-header-content-length"),
                            model.inference.features, options_.max_rows);
  if (!read.ok()) return exchange->Send(FailedReply(read.status()));
  std::vector<float> features = std::move(read->features);
  if (!read->events.empty()) {
    const std::vector<std::string_view> records(read->events.begin(), read->events.end());
    const auto decoded = thread.events->ReadRecords(records);
    if (!decoded.ok()) return exchange->Send(FailedReply(decoded.status()));
    auto& rows = (*decoded)->rows;
    if (!rows.dead.empty()) {
      rejected_events_.Add(rows.dead.size());
      return exchange->Send(
          ErrorReply(400, "event " + std::to_string(rows.dead[0].offset) + ": " + rows.dead[0].reason));
    }
    features = std::move(rows.features);
  } else {
    const Status status = thread.events->CheckFeatures(features);
    if (!status.ok()) return exchange->Send(FailedReply(status));
  }
  const size_t rows = read->rows;
  read->events.clear();
  Submit(thread, std::move(features), rows, std::move(exchange),
         [this, &model, request = std::move(*read)](const Predictor::Answer& answer) {
           return InferenceReply(model.inference, request, answer.scores, answer.version,
                                 AgeOf(answer.version));
         });
}

void Service::Submit(Thread& thread, std::vector<float> features, size_t rows, Exchange exchange,
                     std::function<http::Reply(const Predictor::Answer&)> reply) {
  const Time begin = clock_.Now();
  auto done = [this, begin, exchange = std::move(exchange),
               reply = std::move(reply)](Predictor::Answer answer) mutable {
    http::Exchange& on = *exchange;
    on.Post(
        [this, begin, exchange = std::move(exchange), reply = std::move(reply), answer = std::move(answer)] {
          if (!answer.status.ok()) {
            // A queue that is full now is not the request's fault.
            const bool full = answer.status.code() == Code::kResourceExhausted;
            exchange->Send(full ? ErrorReply(503, answer.status.message()) : FailedReply(answer.status));
          } else {
            exchange->Send(reply(answer));
          }
          seconds_.Record(Seconds(clock_.Now() - begin));
        });
  };
  thread.requests.push_back({.features = std::move(features),
                             .rows = static_cast<uint32_t>(rows),
                             .deadline = begin + options_.timeout,
                             .done = std::move(done)});
}

void Service::OnRoundEnd(size_t thread_index) {
  Thread& thread = *threads_[thread_index];
  if (thread.requests.empty()) return;
  model_.load()->predictor.Submit(std::exchange(thread.requests, {}));
}

}  // namespace leat::serve
