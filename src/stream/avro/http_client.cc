#include "stream/avro/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <utility>

namespace leat::stream {
namespace {

size_t Append(const char* data, size_t size, size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > HttpClient::kMaxBody) return 0;  // ends the transfer
  text.append(data, size * count);
  return size * count;
}

}  // namespace

struct HttpClient::State {
  CURL* curl = nullptr;
  std::string body;
  std::array<char, CURL_ERROR_SIZE> error{};
  curl_slist* headers = nullptr;
};

HttpClient::HttpClient(HttpOptions options) : state_(std::make_unique<State>()) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  state_->curl = curl_easy_init();
  if (state_->curl == nullptr) return;
  const auto set = [&](CURLoption option, const auto& value) {
    curl_easy_setopt(state_->curl, option, value);
  };
  const auto set_text = [&](CURLoption option, const std::string& value) {
    if (!value.empty()) set(option, value.c_str());
  };
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_WRITEFUNCTION, &Append);
  set(CURLOPT_WRITEDATA, &state_->body);
  set(CURLOPT_ERRORBUFFER, state_->error.data());
  state_->headers =
      curl_slist_append(nullptr, "Accept: application/vnd.schemaregistry.v1+json, application/json");
  set(CURLOPT_HTTPHEADER, state_->headers);
  if (!options.user.empty()) set(CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
  set_text(CURLOPT_USERPWD, options.user);
  set_text(CURLOPT_CAINFO, options.ca);
  set_text(CURLOPT_SSLCERT, options.certificate);
  set_text(CURLOPT_SSLKEY, options.key);
  set_text(CURLOPT_KEYPASSWD, options.key_password);
}

HttpClient::~HttpClient() {
  curl_easy_cleanup(state_->curl);
  curl_slist_free_all(state_->headers);
}

Result<HttpReply> HttpClient::Get(const std::string& url, Duration timeout) {
  if (state_->curl == nullptr) return Status(Code::kInternal, "libcurl cannot be used");
  state_->body.clear();
  state_->error[0] = 0;
  const auto ms =
      std::max<int64_t>(1, std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count());
  curl_easy_setopt(state_->curl, CURLOPT_TIMEOUT_MS, static_cast<long>(ms));
  curl_easy_setopt(state_->curl, CURLOPT_URL, url.c_str());
  const CURLcode code = curl_easy_perform(state_->curl);
  if (code == CURLE_WRITE_ERROR)
    return Status(Code::kDataLoss, url + ": the reply has more than " + std::to_string(kMaxBody) + " bytes");
  if (code != CURLE_OK) {
    const std::string why = state_->error[0] != 0 ? state_->error.data() : curl_easy_strerror(code);
    return Status(code == CURLE_OPERATION_TIMEDOUT ? Code::kDeadlineExceeded : Code::kUnavailable,
                  url + ": " + why);
  }
  long status = 0;
  curl_easy_getinfo(state_->curl, CURLINFO_RESPONSE_CODE, &status);
  return HttpReply{.status = static_cast<int>(status), .body = std::move(state_->body)};
}

}  // namespace leat::stream
