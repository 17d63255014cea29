// Answers requests for predictions.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "base/status.h"
#include "job/job.h"
#include "net/http/exchange.h"
#include "serve/event_reader.h"
#include "serve/inference_protocol.h"
#include "serve/predictor.h"
#include "serve/versions.h"

namespace leat::serve {

// The tokens of those who may ask for predictions: a file with one token a line. They are not the job's
// token, with which one could train. Thread-safe.
class Tokens {
 public:
  static constexpr size_t kLeastCharacters = 16;

  // Blank lines, and what follows a #, are ignored. The errors name the file: kNotFound, kPermissionDenied
  // (other users can read it), kInvalidArgument with the line (a token that is too short or has blanks), or
  // if it has none.
  static Result<std::unique_ptr<Tokens>> Load(std::string path);

  // Whether it is one of them. A file that has changed is read, at most once a second; if it is refused, the
  // former tokens stay valid, and a line in the log says why.
  bool Accepts(std::string_view token, Time now);

 private:
  explicit Tokens(std::string path) : path_(std::move(path)) {}
  Status Read();

  const std::string path_;
  std::mutex mutex_;
  std::string stamp_;  // stamp of the file at the last look
  Time looked_{};
  std::set<std::array<unsigned char, 32>> digests_;  // the time of a comparison tells nothing about a token
};

// Routes, and the way from a body to rows and back. It has no socket.
//
//   POST /v1/predict                           events (event_reader.h)
//   GET  /v2, /v2/health/live, /v2/health/ready
//   GET  /v2/models/NAME[/versions/V], …/ready
//   POST /v2/models/NAME[/versions/V]/infer    (inference_protocol.h)
class Service final : public http::Handler {
 public:
  struct Options {
    std::string program_version;
    std::unique_ptr<Tokens> tokens = nullptr;     // null: everyone may ask
    size_t threads = 1;                           // threads of the HTTP server
    size_t max_rows = 10'000;                     // most rows of a request; more get status 413
    Duration timeout = std::chrono::seconds(10);  // until a prediction has begun; then status 504
    uint32_t max_batch = 64;
    Duration max_wait{0};
  };
  // `registry` outlives it.
  Service(Options options, metrics::Registry& registry);
  ~Service() override;

  // The first call begins to serve a job's model: it blocks while the graph is compiled. `plan`: kernels and
  // passes. Until then requests for it get status 503. Later calls return kFailedPrecondition, with what
  // differs, if this job has another model or schema. Thread-safe, as all that follows.
  Status SetModel(const job::Job& job, const engine::PlanOptions& plan);
  // Null before SetModel; then always the same.
  Versions* versions() const;
  // Why there is no model or no version yet, for those who may ask for predictions, with status 503.
  void NotReady(std::string why);
  // Empty: there are predictions. Without names and addresses: everyone may ask.
  std::string WhyNotReady() const;
  // Requests that wait, and all that come later, get status 503. Call it before the HTTP server ends, which
  // then has nothing to wait for.
  void Stop();
  // Predictions are computed now, and kernels of SetModel's `plan` should finish.
  bool Computing() const;
  // The newest version and its age in the registry.
  void UpdateMetrics();

  http::Admission Admit(const net::RequestHead& head, net::CertificateRoles roles) override;
  http::Reply Error(int status, std::string_view why) const override;
  void Handle(size_t thread, http::Request request, std::shared_ptr<http::Exchange> exchange) override;
  void OnRoundEnd(size_t thread) override;

 private:
  struct Model;
  struct Thread;
  using Exchange = std::shared_ptr<http::Exchange>;

  std::string ReasonNotReady() const;
  // The path is known, and is no path for predictions.
  http::Reply Get(const Model* model, const std::string& path);
  void Predict(Model& model, Thread& thread, const http::Request& request, Exchange exchange);
  void Infer(Model& model, Thread& thread, const http::Request& request, Exchange exchange);
  // Has the rows predicted; `reply` makes the reply from an answer without error.
  void Submit(Thread& thread, std::vector<float> features, size_t rows, Exchange exchange,
              std::function<http::Reply(const Predictor::Answer&)> reply);
  http::Reply FailedReply(const Status& status) const;
  double AgeOf(const Version& version) const;

  const Options options_;
  const MonotonicClock clock_;
  metrics::Registry& registry_;
  metrics::Counter& rejected_events_;
  metrics::Histogram& seconds_;
  std::atomic<std::shared_ptr<Model>> model_;
  mutable std::mutex mutex_;  // guards the members below
  std::string not_ready_ = "the model is not known yet";
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace leat::serve
