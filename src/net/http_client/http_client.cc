#include "net/http_client/http_client.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace leat::net {
namespace {

constexpr long kConnectMs = 10'000;
constexpr long kStalledSeconds = 20;
constexpr long kUploadBuffer = 1 << 20;
constexpr long kDownloadBuffer = 256 << 10;
constexpr size_t kMostHeaders = 200;
constexpr int kLowerEffort = 0x04;  // RFC 8622: networks carry it after everything else

class CurlClient final : public HttpClient {
 public:
  explicit CurlClient(Options options) : options_(std::move(options)) {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    curl_ = curl_easy_init();
  }
  ~CurlClient() override { curl_easy_cleanup(curl_); }

  Result<Reply> Do(const Request& request) override;

 private:
  bool IntoPlace() const {
    long status = 0;
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
    return !request_->into.empty() && status / 100 == 2;
  }
  static size_t OnBody(const char* in, size_t, size_t bytes, void* data) {
    auto& self = *static_cast<CurlClient*>(data);
    Reply& reply = self.reply_;
    if (self.IntoPlace()) {
      if (bytes > self.request_->into.size() - reply.written) return 0;  // ends the transfer
      std::memcpy(self.request_->into.data() + reply.written, in, bytes);
      reply.written += bytes;
      return bytes;
    }
    if (reply.body.size() + bytes > self.options_.max_body) return 0;
    const ByteView more = AsBytes({in, bytes});
    reply.body.insert(reply.body.end(), more.begin(), more.end());
    return bytes;
  }
  static size_t OnHeader(const char* in, size_t, size_t bytes, void* data) {
    Fields& headers = static_cast<CurlClient*>(data)->reply_.headers;
    std::string_view line(in, bytes);
    if (line.starts_with("HTTP/")) headers.clear();  // drops the headers of an interim reply
    const std::string_view name = TakeUntil(":", &line);
    if (name.size() == bytes || headers.size() >= kMostHeaders) return bytes;
    headers.emplace_back(Lower(name), Trimmed(line));
    return bytes;
  }
  static int OnProgress(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<const StopEvent*>(stop)->is_set() ? 1 : 0;
  }
  static int OnSocket(void*, curl_socket_t socket, curlsocktype) {
    // Best effort: one of the two fails, by the family.
    (void)setsockopt(socket, IPPROTO_IP, IP_TOS, &kLowerEffort, sizeof(kLowerEffort));
    (void)setsockopt(socket, IPPROTO_IPV6, IPV6_TCLASS, &kLowerEffort, sizeof(kLowerEffort));
    return CURL_SOCKOPT_OK;
  }

  const Options options_;
  CURL* curl_ = nullptr;
  const Request* request_ = nullptr;
  Reply reply_;
};

Result<HttpClient::Reply> CurlClient::Do(const Request& request) {
  if (curl_ == nullptr) return Status(Code::kInternal, "libcurl cannot be used");
  request_ = &request;
  reply_ = Reply();
  std::array<char, CURL_ERROR_SIZE> error{};
  curl_easy_reset(curl_);  // keeps the connection
  const auto set = [this](CURLoption option, auto value) { curl_easy_setopt(curl_, option, value); };
  const auto set_text = [&](CURLoption option, const std::string& text) {
    if (!text.empty()) set(option, text.c_str());
  };
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_ERRORBUFFER, error.data());
  set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(request.timeout).count();
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<int64_t>(1, ms)));
  set(CURLOPT_BUFFERSIZE, kDownloadBuffer);
  set(CURLOPT_WRITEFUNCTION, &OnBody);
  set(CURLOPT_WRITEDATA, this);
  set(CURLOPT_HEADERFUNCTION, &OnHeader);
  set(CURLOPT_HEADERDATA, this);
  if (options_.stop != nullptr) {
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &OnProgress);
    set(CURLOPT_XFERINFODATA, options_.stop);
  }
  if (options_.background) set(CURLOPT_SOCKOPTFUNCTION, &OnSocket);
  if (!options_.proxy) set(CURLOPT_PROXY, "");
  set_text(CURLOPT_USERPWD, options_.user);
  set_text(CURLOPT_CAINFO, options_.ca);
  set_text(CURLOPT_SSLCERT, options_.certificate);
  set_text(CURLOPT_SSLKEY, options_.key);
  set_text(CURLOPT_KEYPASSWD, options_.key_password);
  if (!options_.verify) {
    set(CURLOPT_SSL_VERIFYPEER, 0L);
    set(CURLOPT_SSL_VERIFYHOST, 0L);
  }
  // No wait for "100 Continue", and no type unless `headers` have one.
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");
  if (request.method == "PUT" || request.method == "POST") {
    headers = curl_slist_append(headers, "Content-Type:");
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.empty() ? "" : AsText(request.body).data());  // not copied
    set(CURLOPT_UPLOAD_BUFFERSIZE, kUploadBuffer);
  } else if (request.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  }
  set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  for (const auto& [name, value] : request.headers)
    headers = curl_slist_append(headers, (name + ": " + value).c_str());
  set(CURLOPT_HTTPHEADER, headers);
  const CURLcode code = curl_easy_perform(curl_);
  curl_slist_free_all(headers);
  long status = 0;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
  reply_.status = static_cast<int>(status);
  if (code == CURLE_OK) return std::move(reply_);
  const std::string name = request.name.empty()
                               ? request.url.substr(0, request.url.find('/', request.url.find("://") + 3))
                               : request.name;
  if (code == CURLE_WRITE_ERROR) {
    const size_t most = IntoPlace() ? request.into.size() : options_.max_body;
    return Status(Code::kDataLoss, name + ": the reply has more than " + std::to_string(most) + " bytes");
  }
  return Status(code == CURLE_ABORTED_BY_CALLBACK  ? Code::kAborted
                : code == CURLE_OPERATION_TIMEDOUT ? Code::kDeadlineExceeded
                                                   : Code::kUnavailable,
                name + ": " + (error[0] != 0 ? error.data() : curl_easy_strerror(code)));
}

}  // namespace

std::string HttpClient::Reply::Header(const std::string& name) const {
  const auto found = std::ranges::find(headers, name, [](const auto& field) { return field.first; });
  return found == headers.end() ? "" : found->second;
}

std::unique_ptr<HttpClient> MakeHttpClient(const HttpClient::Options& options) {
  return std::make_unique<CurlClient>(options);
}

}  // namespace leat::net
