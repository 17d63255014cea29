#include "stream/avro/schema_registry.h"

#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "stream/decode/row_writer.h"

namespace leat::stream {
namespace {

namespace dom = simdjson::dom;

bool IsSilence(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kDeadlineExceeded;
}

// {"schema": "TEXT", "schemaType": "AVRO", "references": []}; the last two are optional.
Result<std::string> SchemaIn(std::string_view body) {
  dom::parser parser;
  dom::object reply;
  std::string_view schema, type;
  dom::array references;
  if (parser.parse(body).get(reply) != simdjson::SUCCESS ||
      reply["schema"].get(schema) != simdjson::SUCCESS) {
    return Status(Code::kDataLoss, "the reply has no schema: " + Quoted(body));
  }
  if (reply["schemaType"].get(type) == simdjson::SUCCESS && type != "AVRO")
    return Status(Code::kDataLoss, "the schema is " + Quoted(type) + ", not Avro");
  if (reply["references"].get(references) == simdjson::SUCCESS && references.size() > 0)
    return Status(Code::kDataLoss,
                  "the schema refers to other schemas of the registry, which is not supported");
  return std::string(schema);
}

}  // namespace

HttpSchemaService::HttpSchemaService(std::string url, net::HttpClient::Options options)
    : url_(std::move(url)), client_(net::MakeHttpClient(options)) {}

Result<std::string> HttpSchemaService::Get(uint32_t id, Duration timeout) {
  const std::string url = url_ + "/schemas/ids/" + std::to_string(id);
  LEAT_ASSIGN_OR_RETURN(
      const net::HttpClient::Reply reply,
      client_->Do({.url = url,
                   .headers = {{"Accept", "application/vnd.schemaregistry.v1+json, application/json"}},
                   .timeout = timeout,
                   .name = url}));
  if (reply.status == 200) return SchemaIn(AsText(reply.body)).With(url);
  const std::string said = url + ": the registry answers " + std::to_string(reply.status);
  if (reply.status == 404) return Status(Code::kNotFound, said);
  const bool later = reply.status >= 500 || reply.status == 429;
  return Status(later ? Code::kUnavailable : Code::kPermissionDenied, said);
}

Result<std::unique_ptr<SchemaService>> OpenRegistry(const RegistryOptions& options) {
  net::HttpClient::Options http{.ca = options.ca,
                                .certificate = options.certificate,
                                .key = options.key,
                                .max_body = HttpSchemaService::kMaxReply};
  if (options.user) {
    LEAT_ASSIGN_OR_RETURN(http.user, ReadSecretValue(*options.user));
  }
  if (options.key_password) {
    LEAT_ASSIGN_OR_RETURN(http.key_password, ReadSecretValue(*options.key_password));
  }
  return std::unique_ptr<SchemaService>(std::make_unique<HttpSchemaService>(options.url, std::move(http)));
}

SchemaRegistry::Timing SchemaRegistry::RealTiming() {
  return {.now = [] { return MonotonicClock().Now(); },
          .wait = [](Duration time) { std::this_thread::sleep_for(time); }};
}

SchemaRegistry::SchemaRegistry(std::unique_ptr<SchemaService> service, Duration timeout, Timing timing)
    : service_(std::move(service)),
      timeout_(timeout),
      timing_(std::move(timing)),
      waits_again_(std::numeric_limits<int64_t>::min()),
      asks_again_(std::numeric_limits<int64_t>::min()) {}

void SchemaRegistry::Find(const std::set<uint32_t>& ids,
                          const std::function<void(uint32_t, const std::string&)>& found) {
  const Time begin = timing_.now(), deadline = begin + timeout_;
  std::map<uint32_t, std::string> open;  // and why each is
  for (const uint32_t id : ids) {
    const auto at = unknown_.find(id);
    if (at == unknown_.end() || begin >= at->second.until) open.emplace(id, silence_);
  }
  if (open.empty()) return;
  if (begin >= asks_again_) {
    const bool patient = begin >= waits_again_;
    Status answered;
    for (Duration wait = kFirstWait;; wait = std::min(2 * wait, kLongestWait)) {
      answered = AskAll(&open, deadline, found);
      if (open.empty()) return;
      if (!patient || timing_.now() + wait >= deadline) break;
      timing_.wait(wait);
    }
    const Time end = timing_.now();
    if (patient) waits_again_ = end + kPause;
    if (!answered.ok()) {
      asks_again_ = end + kPause;
      silence_ = answered.message();
    }
  }
  for (auto& [id, reason] : open) Remember(id, std::move(reason));
}

Status SchemaRegistry::AskAll(std::map<uint32_t, std::string>* ids, Time deadline,
                              const std::function<void(uint32_t, const std::string&)>& found) {
  for (auto next = ids->begin(); next != ids->end();) {
    auto& [id, reason] = *next;
    const Duration left = deadline - timing_.now();
    const auto text = left > Duration(0) ? service_->Get(id, left)
                                         : Status(Code::kDeadlineExceeded, "the registry is too slow");
    if (!text.ok() && IsSilence(text.status())) {  // the others would not be answered either
      for (; next != ids->end(); ++next) next->second = text.status().message();
      return text.status();
    }
    if (text.ok()) {
      unknown_.erase(id);
      found(id, *text);
    } else if (text.status().code() == Code::kNotFound) {
      reason = text.status().message();
      ++next;
      continue;
    } else {
      Remember(id, text.status().message());
    }
    next = ids->erase(next);
  }
  return {};
}

void SchemaRegistry::Remember(uint32_t id, std::string reason) {
  if (unknown_.size() >= kMaxUnknown) unknown_.clear();
  unknown_[id] = {std::move(reason), timing_.now() + kPause};
}

std::string SchemaRegistry::Reason(uint32_t id) const {
  const auto at = unknown_.find(id);
  return at == unknown_.end() ? "is not known" : at->second.reason;
}

}  // namespace leat::stream
