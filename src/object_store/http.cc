#include "object_store/http.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>

#include "object_store/xml.h"

namespace leat::object_store {
namespace {

constexpr long kConnectMs = 10'000;
constexpr long kStalledSeconds = 20;
constexpr long kUploadBuffer = 1 << 20;
constexpr long kDownloadBuffer = 256 << 10;
constexpr int kLowerEffort = 0x04;  // RFC 8622: networks carry it after everything else

class CurlHttp final : public Http {
 public:
  explicit CurlHttp(HttpOptions options) : options_(std::move(options)) {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    curl_ = curl_easy_init();
  }
  ~CurlHttp() override { curl_easy_cleanup(curl_); }

  Result<HttpReply> Do(const HttpRequest& request) override;

 private:
  static size_t OnRead(char* out, size_t size, size_t count, void* data) {
    auto& self = *static_cast<CurlHttp*>(data);
    const size_t bytes = std::min(size * count, self.request_->body.size() - self.sent_);
    if (bytes > 0) std::memcpy(out, self.request_->body.data() + self.sent_, bytes);
    self.sent_ += bytes;
    return bytes;
  }
  static int OnSeek(void* data, curl_off_t offset, int origin) {
    auto& self = *static_cast<CurlHttp*>(data);
    if (origin != SEEK_SET || offset < 0 || static_cast<size_t>(offset) > self.request_->body.size())
      return CURL_SEEKFUNC_FAIL;
    self.sent_ = static_cast<size_t>(offset);
    return CURL_SEEKFUNC_OK;
  }
  static size_t OnBody(const char* in, size_t size, size_t count, void* data) {
    auto& self = *static_cast<CurlHttp*>(data);
    const size_t bytes = size * count;
    long status = 0;
    curl_easy_getinfo(self.curl_, CURLINFO_RESPONSE_CODE, &status);
    if (!self.request_->into.empty() && status / 100 == 2) {
      if (bytes > self.request_->into.size() - self.reply_.written) return 0;  // ends the transfer
      std::memcpy(self.request_->into.data() + self.reply_.written, in, bytes);
      self.reply_.written += bytes;
      return bytes;
    }
    if (self.reply_.body.size() + bytes > kMaxReply) return 0;
    const auto* from = reinterpret_cast<const std::byte*>(in);
    self.reply_.body.insert(self.reply_.body.end(), from, from + bytes);
    return bytes;
  }
  static size_t OnHeader(const char* in, size_t size, size_t count, void* data) {
    auto& self = *static_cast<CurlHttp*>(data);
    const std::string_view line(in, size * count);
    if (line.starts_with("HTTP/")) self.reply_.headers.clear();  // of an interim reply
    constexpr size_t kMostHeaders = 200;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || self.reply_.headers.size() >= kMostHeaders) return size * count;
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::string value(line.substr(colon + 1));
    while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back()))) value.pop_back();
    value.erase(0, value.find_first_not_of(" \t"));
    self.reply_.headers.emplace_back(std::move(name), std::move(value));
    return size * count;
  }
  static int OnProgress(void* data, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const auto* stop = static_cast<CurlHttp*>(data)->options_.stop;
    return stop != nullptr && stop->load() ? 1 : 0;
  }
  static int OnSocket(void*, curl_socket_t socket, curlsocktype) {
    // Best effort: one of the two fails, by the family.
    (void)setsockopt(socket, IPPROTO_IP, IP_TOS, &kLowerEffort, sizeof(kLowerEffort));
    (void)setsockopt(socket, IPPROTO_IPV6, IPV6_TCLASS, &kLowerEffort, sizeof(kLowerEffort));
    return CURL_SOCKOPT_OK;
  }

  const HttpOptions options_;
  CURL* curl_ = nullptr;
  const HttpRequest* request_ = nullptr;
  size_t sent_ = 0;
  HttpReply reply_;
};

Result<HttpReply> CurlHttp::Do(const HttpRequest& request) {
  if (curl_ == nullptr) return Status(Code::kInternal, "libcurl cannot be used");
  request_ = &request;
  sent_ = 0;
  reply_ = HttpReply();
  std::array<char, CURL_ERROR_SIZE> error{};
  curl_easy_reset(curl_);  // keeps the connection
  const auto set = [this](CURLoption option, auto value) { curl_easy_setopt(curl_, option, value); };
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
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &OnProgress);
  set(CURLOPT_XFERINFODATA, this);
  set(CURLOPT_SOCKOPTFUNCTION, &OnSocket);
  if (!options_.ca.empty()) set(CURLOPT_CAINFO, options_.ca.c_str());
  const bool put = request.method == "PUT" || request.method == "POST";
  if (put) {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_READFUNCTION, &OnRead);
    set(CURLOPT_READDATA, this);
    set(CURLOPT_SEEKFUNCTION, &OnSeek);
    set(CURLOPT_SEEKDATA, this);
    set(CURLOPT_UPLOAD_BUFFERSIZE, kUploadBuffer);
  } else if (request.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  }
  set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  // No wait for "100 Continue".
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");
  for (const auto& [name, value] : request.headers)
    headers = curl_slist_append(headers, (name + ": " + value).c_str());
  set(CURLOPT_HTTPHEADER, headers);
  const CURLcode code = curl_easy_perform(curl_);
  curl_slist_free_all(headers);
  long status = 0;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
  reply_.status = static_cast<int>(status);
  if (code == CURLE_OK) return std::move(reply_);
  const std::string host = request.url.substr(0, request.url.find('/', request.url.find("://") + 3));
  const std::string why = host + ": " + (error[0] != 0 ? error.data() : curl_easy_strerror(code));
  if (code == CURLE_ABORTED_BY_CALLBACK) return Status(Code::kAborted, why);
  if (code == CURLE_WRITE_ERROR) return Status(Code::kDataLoss, host + ": the reply has too many bytes");
  return Status(code == CURLE_OPERATION_TIMEDOUT ? Code::kDeadlineExceeded : Code::kUnavailable, why);
}

}  // namespace

std::string HttpReply::Header(const std::string& name) const {
  const auto found = std::ranges::find(headers, name, [](const auto& field) { return field.first; });
  return found == headers.end() ? "" : found->second;
}

std::unique_ptr<Http> MakeHttp(const HttpOptions& options) {
  return std::make_unique<CurlHttp>(options);
}

}  // namespace leat::object_store
