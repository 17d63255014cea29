// Retries, settings, credentials and requests, with HTTP replies of the test.
#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <map>

#include "base/testing.h"
#include "storage/object_store/credentials.h"
#include "storage/object_store/object_store.h"

namespace leat::object_store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Environment Of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  };
}

struct Script {
  std::deque<Result<HttpClient::Reply>> replies;
  std::vector<HttpClient::Request> requests;
  std::vector<std::string> bodies;
};

class ScriptedHttp final : public HttpClient {
 public:
  explicit ScriptedHttp(Script& script) : script_(script) {}
  Result<HttpClient::Reply> Do(const HttpClient::Request& request) override {
    script_.requests.push_back(request);
    script_.bodies.emplace_back(AsText(request.body));
    if (script_.replies.empty()) return Status(Code::kUnavailable, "nobody answers");
    auto reply = std::move(script_.replies.front());
    script_.replies.pop_front();
    if (reply.ok() && reply->status / 100 == 2 && !request.into.empty()) {
      reply->written = std::min(request.into.size(), reply->body.size());
      std::copy_n(reply->body.begin(), reply->written, request.into.begin());
      reply->body.clear();
    }
    return reply;
  }

 private:
  Script& script_;
};

HttpClient::Reply Reply(int status, std::string_view body = "", Fields headers = {}) {
  return {status, std::move(headers), Bytes(AsBytes(body).begin(), AsBytes(body).end()), 0};
}

class S3Test : public ::testing::Test {
 protected:
  std::unique_ptr<ObjectStore> Open(Settings settings = {.bucket = "bucket", .prefix = "jobs/1"}) {
    StoreOptions options;
    options.environment = Of({{"AWS_ACCESS_KEY_ID", "key"},
                              {"AWS_SECRET_ACCESS_KEY", "secret"},
                              {"AWS_ENDPOINT_URL", "http://store:9000"}});
    options.retries = {milliseconds(1), milliseconds(2), milliseconds(200)};
    options.metrics = &metrics_;
    options.make_http = [this](const HttpClient::Options&) {
      return std::make_unique<ScriptedHttp>(script_);
    };
    settings.connections = 1;
    auto store = OpenS3(settings, options);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return std::move(*store);
  }
  static std::string HeaderOf(const HttpClient::Request& request, const std::string& name) {
    for (const auto& [key, value] : request.headers)
      if (key == name) return value;
    return "";
  }
  uint64_t Metric(const std::string& what) {
    return metrics_.counter("leat_object_store_" + what + "_total").value();
  }
  Script script_;
  metrics::Registry metrics_;
};

TEST_F(S3Test, PutsWithAChecksumAndASignature) {
  script_.replies = {Reply(200)};
  const auto store = Open();
  ASSERT_TRUE(store->Put("a b", AsBytes("123456789")).ok());
  EXPECT_EQ(script_.requests[0].url, "http://store:9000/bucket/jobs/1/a%20b");
  EXPECT_EQ(HeaderOf(script_.requests[0], "x-amz-checksum-crc32c"), "4waSgw==");
  EXPECT_TRUE(HeaderOf(script_.requests[0], "authorization").starts_with("AWS4-HMAC-SHA256 Credential=key/"));
  EXPECT_EQ(HeaderOf(script_.requests[0], "host"), "store:9000");
}

TEST_F(S3Test, TriesAgainAndCounts) {
  script_.replies = {Reply(500), Status(Code::kUnavailable, "reset"),
                     Reply(503, "<Error><Code>SlowDown</Code></Error>"),
                     Reply(400, "<Error><Code>BadDigest</Code></Error>"), Reply(200)};
  const auto store = Open();
  EXPECT_TRUE(store->Put("k", AsBytes("x")).ok());
  EXPECT_EQ(store->counts().requests, 5u);
  EXPECT_EQ(store->counts().retries, 4u);
  EXPECT_EQ(script_.bodies, std::vector<std::string>(5, "x"));
  EXPECT_EQ(store->counts().bytes_up, 1u) << "what has arrived";
}

TEST_F(S3Test, MetricsAreThoseOfAllStores) {
  script_.replies = {Reply(500), Reply(200), Reply(206, "abcd")};
  const auto one = Open();
  ASSERT_TRUE(one->Put("k", AsBytes("xyz")).ok());
  const auto other = Open();
  Bytes out(4);
  ASSERT_TRUE(other->Read("k", 0, out).ok());
  EXPECT_EQ(other->counts().requests, 1u);
  EXPECT_EQ(Metric("requests"), 3u);
  EXPECT_EQ(Metric("retries"), 1u);
  EXPECT_EQ(Metric("sent_bytes"), 3u);
  EXPECT_EQ(Metric("received_bytes"), 4u);
}

TEST_F(S3Test, GivesUpAtTheDeadlineAndAtOnceWhereItIsOfNoUse) {
  const auto store = Open();
  const Status away = store->Put("k", AsBytes("x"));
  EXPECT_EQ(away.code(), Code::kUnavailable);
  EXPECT_TRUE(away.message().starts_with("s3://bucket/jobs/1/k: nobody answers (tried ")) << away.message();
  script_.requests.clear();
  script_.replies = {Reply(403, "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>")};
  const Status wrong = store->Put("k", AsBytes("x"));
  EXPECT_EQ(wrong,
            Status(Code::kPermissionDenied, "s3://bucket/jobs/1/k: SignatureDoesNotMatch: no (HTTP 403)"));
  EXPECT_EQ(script_.requests.size(), 1u);
  script_.replies = {Reply(404, "<Error><Code>NoSuchBucket</Code></Error>")};
  EXPECT_EQ(store->List("").status().code(), Code::kFailedPrecondition);
}

TEST_F(S3Test, KeysThatWereReplacedInAFileAreReadAgain) {
  const TempDir dir;
  const auto write = [&](const std::string& key) {
    std::ofstream(dir / "credentials")
        << "[default]\naws_access_key_id = " << key << "\naws_secret_access_key = secret of " << key << "\n";
  };
  write("first");
  StoreOptions options;
  options.environment = Of({{"AWS_SHARED_CREDENTIALS_FILE", dir / "credentials"},
                            {"AWS_EC2_METADATA_DISABLED", "true"},
                            {"AWS_ENDPOINT_URL", "http://store:9000"}});
  options.retries = {milliseconds(1), milliseconds(2), seconds(60)};
  options.make_http = [this](const HttpClient::Options&) { return std::make_unique<ScriptedHttp>(script_); };
  auto store = OpenS3({.bucket = "bucket", .connections = 1}, options);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  const auto key_of = [&](size_t request) {
    const std::string header = HeaderOf(script_.requests.at(request), "authorization");
    const size_t begin = header.find("Credential=") + 11;
    return header.substr(begin, header.find('/', begin) - begin);
  };
  const auto refused = [](const std::string& code) {
    return Reply(403, "<Error><Code>" + code + "</Code></Error>");
  };
  script_.replies = {Reply(200), refused("InvalidAccessKeyId"), refused("InvalidAccessKeyId")};
  ASSERT_TRUE((*store)->Put("k", AsBytes("x")).ok());
  // The file has not changed: that is said at once.
  EXPECT_EQ((*store)->Put("k", AsBytes("x")).code(), Code::kPermissionDenied);
  EXPECT_EQ(script_.requests.size(), 2u);
  write("second");
  script_.replies = {refused("InvalidAccessKeyId"), Reply(200), Reply(200)};
  EXPECT_TRUE((*store)->Put("k", AsBytes("x")).ok());
  EXPECT_EQ(key_of(2), "first");
  EXPECT_EQ(key_of(3), "second");
  EXPECT_TRUE((*store)->Put("k", AsBytes("x")).ok());
  EXPECT_EQ(key_of(4), "second");
  write("third");
  script_.replies = {refused("SignatureDoesNotMatch"), Reply(200)};
  EXPECT_TRUE((*store)->Put("k", AsBytes("x")).ok());
  EXPECT_EQ(key_of(6), "third");
  write("fourth");  // a reply to HEAD has no body
  script_.replies = {Reply(403), Reply(200, "", {{"content-length", "7"}})};
  EXPECT_EQ(*(*store)->Size("k"), 7u);
  EXPECT_EQ(key_of(8), "fourth");
  write("fifth");  // which the store does not know either
  script_.replies = {refused("InvalidAccessKeyId"), refused("InvalidAccessKeyId")};
  EXPECT_EQ((*store)->Put("k", AsBytes("x")).code(), Code::kPermissionDenied);
  EXPECT_TRUE(script_.replies.empty());
}

TEST_F(S3Test, AbortEndsCalls) {
  const auto store = Open();
  store->Abort();
  EXPECT_EQ(store->Put("k", AsBytes("x")).code(), Code::kAborted);
}

TEST_F(S3Test, ATruncatedRangeIsReadAgain) {
  script_.replies = {Reply(206, "abc"), Reply(206, "abcd")};
  const auto store = Open();
  Bytes out(4);
  ASSERT_TRUE(store->Read("k", 10, out).ok());
  EXPECT_EQ(AsText(out), "abcd");
  EXPECT_EQ(HeaderOf(script_.requests[1], "range"), "bytes=10-13");
}

TEST_F(S3Test, PutNewBelievesItsOwnObjectOnly) {
  const auto store = Open();
  // The first attempt had put it.
  script_.replies = {Status(Code::kUnavailable, "lost"), Reply(412),
                     Reply(200, "", {{"content-length", "4"}}), Reply(206, "mine")};
  EXPECT_TRUE(store->PutNew("k", AsBytes("mine")).ok());
  EXPECT_EQ(HeaderOf(script_.requests[0], "if-none-match"), "*");
  script_.replies = {Reply(412), Reply(200, "", {{"content-length", "4"}}), Reply(206, "else")};
  EXPECT_EQ(store->PutNew("k", AsBytes("mine")).code(), Code::kStale);
}

TEST_F(S3Test, UploadsInPartsAndGivesUpWhatFails) {
  const auto store = Open({.bucket = "bucket", .prefix = "", .part_bytes = 4});
  const auto read = [](uint64_t offset, std::span<std::byte> out) {
    const std::string_view whole = "abcdefghij";
    std::ranges::copy(AsBytes(whole.substr(offset, out.size())), out.begin());
    return Status();
  };
  const std::string begun =
      "<InitiateMultipartUploadResult><UploadId>7</UploadId></InitiateMultipartUploadResult>";
  script_.replies = {Reply(200, begun),
                     Reply(200, "", {{"etag", "e1"}}),
                     Reply(200, "", {{"etag", "e2"}}),
                     Reply(200, "", {{"etag", "e3"}, {"x-amz-checksum-crc32c", "c"}}),
                     Reply(200, "<Error><Code>InternalError</Code></Error>"),
                     Reply(200, "<CompleteMultipartUploadResult/>")};
  ASSERT_TRUE(store->Upload("k", 10, read).ok());
  EXPECT_EQ(script_.bodies[1] + script_.bodies[2] + script_.bodies[3], "abcdefghij");
  EXPECT_EQ(script_.requests[3].url, "http://store:9000/bucket/k?partNumber=3&uploadId=7");
  EXPECT_EQ(HeaderOf(script_.requests[3], "x-amz-content-sha256"), kUnsignedPayload);
  EXPECT_EQ(script_.bodies[5], script_.bodies[4]);
  script_ = {};
  script_.replies = {Reply(200, begun), Reply(403), Reply(204)};
  EXPECT_EQ(store->Upload("k", 10, read).code(), Code::kPermissionDenied);
  EXPECT_EQ(script_.requests.back().method, "DELETE");
  EXPECT_EQ(script_.requests.back().url, "http://store:9000/bucket/k?uploadId=7");
}

TEST(Retry, PausesGrowUpToALimitAndEndAtTheDeadline) {
  const Retries retries({milliseconds(100), seconds(1), seconds(10)}, Time(0));
  EXPECT_EQ(retries.Pause(Time(0), 1, 0), milliseconds(50));
  EXPECT_LE(retries.Pause(Time(0), 1, 49'999'999), milliseconds(100));
  EXPECT_EQ(retries.Pause(Time(0), 3, 0), milliseconds(200));
  EXPECT_EQ(retries.Pause(Time(0), 60, 0), milliseconds(500));
  EXPECT_LT(retries.Pause(milliseconds(9990), 1, 0), Duration(0));
}

TEST(Settings, Locations) {
  const auto parsed = ParseLocation("s3://my-bucket/a/b/");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->bucket, "my-bucket");
  EXPECT_EQ(parsed->prefix, "a/b");
  EXPECT_EQ(Location(*parsed), "s3://my-bucket/a/b");
  for (const char* bad :
       {"", "s3://", "http://x/y", "s3://a", "s3://bucket//x", "s3://bucket/../x", "s3://bu ket/x"})
    EXPECT_EQ(ParseLocation(bad).status().code(), Code::kInvalidArgument) << bad;
}

TEST(Settings, ComeFromTheEnvironment) {
  const Settings bucket{.bucket = "bucket", .prefix = "p"};
  const auto aws = Resolve(bucket, Of({{"AWS_REGION", "eu-central-1"}}));
  ASSERT_TRUE(aws.ok());
  EXPECT_EQ(AddressOf(*aws).host, "bucket.s3.eu-central-1.amazonaws.com");
  const auto own =
      Resolve(bucket, Of({{"AWS_ENDPOINT_URL", "http://a:1"}, {"AWS_ENDPOINT_URL_S3", "https://b:443/"}}));
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(AddressOf(*own).host, "b");
  EXPECT_EQ(AddressOf(*own).path, "/bucket");
  EXPECT_EQ(own->region, "us-east-1");
  EXPECT_EQ(Resolve(bucket, Of({{"AWS_ENDPOINT_URL", "b:9000"}})).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ProfileValue("[default]\nregion=a\n[profile x]\n# c\nregion = b\ns3 =\n  region = c\n",
                         "profile x", "region"),
            "b");
}

TEST(CredentialSource, LooksInTheUsualOrder) {
  Script script;
  const TempDir dir;
  std::ofstream(dir.path() + "/credentials")
      << "[default]\naws_access_key_id = d\naws_secret_access_key = ds\n"
         "[x]\naws_access_key_id=k\naws_secret_access_key=s\naws_session_token=t\n";
  std::map<std::string, std::string> variables{{"AWS_SHARED_CREDENTIALS_FILE", dir.path() + "/credentials"},
                                               {"AWS_CONFIG_FILE", dir.path() + "/none"},
                                               {"AWS_PROFILE", "x"}};
  const auto get = [&] {
    return CredentialSource(Of(variables), std::make_unique<ScriptedHttp>(script)).Get(1000, "eu");
  };
  EXPECT_EQ(get()->access_key, "k");
  EXPECT_EQ(get()->session_token, "t");
  variables["AWS_PROFILE"] = "missing";
  EXPECT_NE(get().status().message().find("'missing'"), std::string::npos);
  std::ofstream(dir.path() + "/token") << "jwt\n";
  variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = dir.path() + "/token";
  variables["AWS_ROLE_ARN"] = "arn:r";
  script.replies = {
      Reply(200,
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
            "<AccessKeyId>w</AccessKeyId><SecretAccessKey>ws</SecretAccessKey><SessionToken>wt</SessionToken>"
            "<Expiration>1970-01-01T01:00:00Z</Expiration></Credentials>"
            "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>")};
  EXPECT_EQ(get()->expires, 3600);
  EXPECT_EQ(script.requests[0].url, "https://sts.eu.amazonaws.com/");
  EXPECT_NE(script.bodies[0].find("WebIdentityToken=jwt"), std::string::npos);
  variables["AWS_ACCESS_KEY_ID"] = "e";
  EXPECT_NE(get().status().message().find("AWS_SECRET_ACCESS_KEY is not"), std::string::npos);
  variables["AWS_SECRET_ACCESS_KEY"] = "es";
  EXPECT_EQ(get()->access_key, "e");
}

TEST(CredentialSource, OfAMachineAreRenewed) {
  Script script;
  const TempDir dir;
  CredentialSource source(Of({{"HOME", dir.path()}}), std::make_unique<ScriptedHttp>(script));
  const auto answer = [&](const std::string& key, const std::string& expires) {
    script.replies = {
        Reply(200, "token"), Reply(200, "role"),
        Reply(200, R"({"AccessKeyId":")" + key + R"(","SecretAccessKey":"s","Token":"t","Expiration":")" +
                       expires + R"("})")};
  };
  answer("first", "1970-01-01T01:00:00Z");
  EXPECT_EQ(source.Get(0, "eu")->access_key, "first");
  EXPECT_EQ(source.Get(3000, "eu")->access_key, "first");
  answer("second", "1970-01-01T02:00:00Z");
  EXPECT_EQ(source.Get(3400, "eu")->access_key, "second");
  EXPECT_EQ(ParseCredentials(AsBytes("[1]")).status().code(), Code::kPermissionDenied);
  script.replies = {Reply(404)};
  source.Forget();
  EXPECT_NE(source.Get(0, "eu").status().message().find("no credentials"), std::string::npos);
}

}  // namespace
}  // namespace leat::object_store
