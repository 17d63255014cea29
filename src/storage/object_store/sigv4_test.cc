// The values are AWS's published examples of Signature Version 4 for S3.
#include "storage/object_store/credentials.h"

#include <gtest/gtest.h>

namespace leat::object_store {
namespace {

constexpr const char* kDate = "20130524T000000Z";
const Credentials kKeys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "", 0};
const Scope kScope{"us-east-1", "s3"};

RequestToSign Request(const std::string& path, Fields query,
                      const std::string& payload_hash = Sha256Hex("")) {
  return {"GET",
          path,
          std::move(query),
          {{"host", "examplebucket.s3.amazonaws.com"},
           {"x-amz-content-sha256", payload_hash},
           {"x-amz-date", kDate}},
          payload_hash};
}

std::string Signature(const RequestToSign& request) {
  const std::string header = Authorization(request, kKeys, kScope, kDate);
  return header.substr(header.rfind('=') + 1);
}

TEST(SigV4, GetsARange) {
  auto request = Request("/test.txt", {});
  request.headers.emplace_back("range", "bytes=0-9");
  EXPECT_EQ(CanonicalRequest(request),
            "GET\n/test.txt\n\nhost:examplebucket.s3.amazonaws.com\nrange:bytes=0-9\n"
            "x-amz-content-sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
            "x-amz-date:20130524T000000Z\n\nhost;range;x-amz-content-sha256;x-amz-date\n"
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(StringToSign(request, kScope, kDate),
            "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n"
            "7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972");
  EXPECT_EQ(Authorization(request, kKeys, kScope, kDate),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(SigV4, PutsAnObjectWhoseKeyIsEncoded) {
  auto request = Request("/" + UriEncode("test$file.text", true), {}, Sha256Hex("Welcome to Amazon S3."));
  request.method = "PUT";
  request.headers.emplace_back("date", "Fri, 24 May 2013 00:00:00 GMT");
  request.headers.emplace_back("x-amz-storage-class", "REDUCED_REDUNDANCY");
  EXPECT_EQ(Signature(request), "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(SigV4, SortsTheQuery) {
  EXPECT_EQ(Signature(Request("/", {{"lifecycle", ""}})),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(Signature(Request("/", {{"prefix", "J"}, {"max-keys", "2"}})),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  EXPECT_EQ(CanonicalQuery({{"b", "x y/z"}, {"a", "\xc3\xa9"}, {"uploads", ""}}),
            "a=%C3%A9&b=x%20y%2Fz&uploads=");
}

TEST(SigV4, EncodesAndSqueezes) {
  EXPECT_EQ(UriEncode("a/b c+~.", true), "a/b%20c%2B~.");
  EXPECT_EQ(UriEncode("a/b", false), "a%2Fb");
  auto request = Request("/", {});
  request.headers.emplace_back("x-amz-meta", "  a   b ");
  EXPECT_NE(CanonicalRequest(request).find("x-amz-meta:a b\n"), std::string::npos);
  EXPECT_EQ(AmzDate(1369353600), kDate);
}

}  // namespace
}  // namespace leat::object_store
