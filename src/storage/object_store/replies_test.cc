#include "storage/object_store/replies.h"

#include <gtest/gtest.h>

namespace leat::object_store {
namespace {

TEST(Xml, ListsObjectsAndPages) {
  const auto list = ParseList(AsBytes(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;1</NextContinuationToken>"
      "<Contents><Key>a/b&lt;c</Key><Size>17</Size></Contents><Contents><Key>d</Key><Size>0</Size></Contents>"
      "</ListBucketResult>"));
  ASSERT_TRUE(list.ok()) << list.status().ToString();
  EXPECT_EQ(list->items, (std::vector<ObjectInfo>{{"a/b<c", 17}, {"d", 0}}));
  EXPECT_EQ(list->next, (net::HttpClient::Fields{{"continuation-token", "t&1"}}));
}

TEST(Xml, RefusesWhatItShould) {
  for (const char* text :
       {"", "<a>", "<a></b>", "not xml", "<a/><b/>", "<!DOCTYPE a [<!ENTITY e \"x\">]><a>&e;</a>", "<Error/>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"}) {
    EXPECT_EQ(ParseList(AsBytes(text)).status().code(), Code::kDataLoss) << text;
  }
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += "<a>";
  EXPECT_NE(ParseXml(AsBytes(deep)).status().message().find("too deeply"), std::string::npos);
}

TEST(Xml, ReadsErrorsInOneLine) {
  const auto error =
      ParseError(AsBytes("<Error><Code>NoSuchBucket</Code><Message>There is\nnone</Message></Error>"));
  EXPECT_EQ(error.code, "NoSuchBucket");
  EXPECT_EQ(error.message, "There is none");
  EXPECT_EQ(ParseError(AsBytes("<html>bad gateway")).code, "");
  EXPECT_EQ(ParseError(AsBytes("<ErrorResponse><Error><Code>C</Code></Error></ErrorResponse>")).code, "C");
}

TEST(Xml, ReadsUploads) {
  EXPECT_EQ(*ParseBegun(AsBytes(
                "<InitiateMultipartUploadResult><UploadId>7</UploadId></InitiateMultipartUploadResult>")),
            "7");
  const auto uploads =
      ParseUploads(AsBytes("<ListMultipartUploadsResult><Upload><Key>k</Key><UploadId>7</UploadId>"
                           "</Upload></ListMultipartUploadsResult>"));
  ASSERT_TRUE(uploads.ok());
  EXPECT_TRUE(uploads->next.empty());
  const auto more = ParseUploads(
      AsBytes("<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>"
              "<NextUploadIdMarker>7</NextUploadIdMarker></ListMultipartUploadsResult>"));
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(more->next, (net::HttpClient::Fields{{"key-marker", "k"}, {"upload-id-marker", "7"}}));
  EXPECT_EQ(uploads->items, (std::vector<OpenUpload>{{"k", "7"}}));
  EXPECT_EQ(ParseCompleted(AsBytes("<CompleteMultipartUploadResult/>"))->code, "");
  EXPECT_EQ(ParseCompleted(AsBytes("<Error><Code>SlowDown</Code></Error>"))->code, "SlowDown");
  EXPECT_EQ(ParseCompleted(AsBytes("<Error/>"))->code, "InternalError");
  EXPECT_NE(WriteComplete({{1, "\"e<1\"", "crc="}}).find("<ETag>\"e&lt;1\"</ETag><ChecksumCRC32C>crc="),
            std::string::npos);
}

}  // namespace
}  // namespace leat::object_store
