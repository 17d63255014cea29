#include "stream/files.h"
#include "stream/file/file_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <iterator>

#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes, bool packed = false) {
    const std::string path = dir_ / name;
    if (!packed) {
      std::ofstream(path, std::ios::binary) << bytes;
    } else {
      gzFile file = gzopen(path.c_str(), "wb");
      gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
      gzclose(file);
    }
    return path;
  }
  static std::string Idx(std::vector<uint32_t> sizes, const std::string& data) {
    std::string out = {0, 0, 8, static_cast<char>(sizes.size())};
    for (uint32_t size : sizes) {
      for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift);
    }
    return out + data;
  }
  static std::vector<std::vector<std::string>> All(Source& source) {
    std::vector<std::vector<std::string>> partitions;
    const auto ranges = source.Ranges();
    for (const PartitionRange& range : *ranges) {
      RecordBatch batch;
      EXPECT_TRUE(source.Read(range.partition, range.begin, range.end, &batch).ok());
      EXPECT_TRUE(range.sealed);
      partitions.push_back(TextsOf(batch));
    }
    return partitions;
  }
  static Status ErrorOf(const FileSourceOptions& options) { return OpenFiles(options).status(); }
  TempDir dir_;
};

TEST_F(FilesTest, JoinsImagesAndLabelsPackedOrNot) {
  const std::string images = Idx({5, 1, 2}, "aabbccddee"), labels = Idx({5}, "01234");
  for (bool packed : {false, true}) {
    auto source = OpenFiles({"idx", {Write("i", images, packed), Write("l", labels, !packed)}, 2});
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    EXPECT_THAT(All(**source), ElementsAre(ElementsAre("aa0", "bb1"), ElementsAre("cc2", "dd3", "ee4")));
    RecordBatch batch;
    ASSERT_TRUE((*source)->Read(1, 1, 2, &batch).ok());
    EXPECT_THAT(TextsOf(batch), ElementsAre("dd3"));
    EXPECT_EQ((*source)->Read(1, 1, 4, &batch).code(), Code::kFailedPrecondition);
    EXPECT_EQ((*source)->Read(2, 0, 0, &batch).code(), Code::kFailedPrecondition);
  }
}

TEST_F(FilesTest, SaysWhatIsWrongWithIdx) {
  const std::string images = Idx({5, 1, 2}, "aabbccddee"), labels = Idx({5}, "01234");
  const std::string i = Write("i", images), l = Write("l", labels);
  const auto expect = [&](const std::string& first, const std::string& second, Code code,
                          const std::string& text) {
    const Status status = ErrorOf({"idx", {first, second}, 1});
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(status.message(), HasSubstr(text));
  };
  expect(dir_ / "nothing", l, Code::kNotFound, "nothing: No such file");
  expect(dir_.path(), l, Code::kNotFound, "is not a file");
  expect(l, l, Code::kDataLoss, "l: has magic 2049, that of labels; images have 2051");
  expect(i, i, Code::kDataLoss, "i: has magic 2051, not 2049");
  expect(Write("text", "hello, world"), l, Code::kDataLoss, "text: has magic 1751477356");
  expect(Write("empty", ""), l, Code::kDataLoss, "too short");
  expect(Write("cut", images.substr(0, 20)), l, Code::kDataLoss,
         "has 4 bytes of data and is truncated: its header says 5x1x2");
  expect(Write("head", images.substr(0, 10)), l, Code::kDataLoss, "ends inside its header");
  expect(Write("long", images + "x"), l, Code::kDataLoss, "goes on behind its end");
  expect(Write("huge", Idx({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, "")), l, Code::kDataLoss,
         "truncated");
  expect(i, Write("few", Idx({4}, "0123")), Code::kDataLoss, "has 5 images");
  // A compressed file that ends too early.
  const std::string packed = Write("packed", Idx({1000, 100}, std::string(100'000, 'x') + "abcdefgh"), true);
  std::filesystem::resize_file(packed, std::filesystem::file_size(packed) / 2);
  expect(packed, l, Code::kDataLoss, "packed: cannot be unpacked: it ends too early");
}

TEST_F(FilesTest, AMemberOfGzipThatIsDamagedIsNotTheEnd) {
  const auto read = [](const std::string& path) { return ReadWholeFile(path, {}); };
  const auto packed = [this](const std::string& name, const std::string& text) {
    std::ifstream in(Write(name, text, true), std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  const std::string one = packed("one", "{\"x\": 1}\n"), two = packed("two", "{\"x\": 2}\n");
  const auto both = read(Write("both", one + two + std::string(1000, '\0')));
  ASSERT_TRUE(both.ok()) << both.status().ToString();
  EXPECT_EQ(AsText(*both), "{\"x\": 1}\n{\"x\": 2}\n");
  EXPECT_EQ(read(Write("behind", one + "bytes")).status().message(),
            dir_ / "behind" + ": cannot be unpacked: incorrect header check (gzip, byte " +
                std::to_string(one.size()) + ")");
  std::string damaged = two;
  damaged[2] = 7;
  EXPECT_THAT(read(Write("damaged", one + damaged)).status().message(), HasSubstr("cannot be unpacked"));
  damaged = two;
  damaged[damaged.size() - 6] ^= 1;
  EXPECT_THAT(read(Write("sum", one + damaged)).status().message(), HasSubstr("incorrect data check"));
}

TEST_F(FilesTest, ReadsLinesOfJson) {
  auto source = OpenFiles({"json", {Write("one", "{\"x\": 1}\n\n{\"x\": 2}", true)}, 2});
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_THAT(All(**source), ElementsAre(ElementsAre("{\"x\": 1}"), ElementsAre("{\"x\": 2}")));
}

TEST_F(FilesTest, ReadsLinesOfCsv) {
  const std::string one = Write("one", "x,y\r\n1,2\r\n\r\n3,4"), two = Write("two", "x,y\n5,6\n \n", true);
  auto source = OpenFiles({"csv", {one, two}, 1, true});
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_THAT(All(**source), ElementsAre(ElementsAre("1,2", "3,4", "5,6")));
  EXPECT_THAT(*ReadCsvHeader(two, {}, ""), ElementsAre("x", "y"));
  auto marked = OpenFiles({"csv",
                           {Write("marked",
                                  "\xEF\xBB\xBF"
                                  "1,2\n3,4\n")}});
  ASSERT_TRUE(marked.ok());
  EXPECT_THAT(All(**marked), ElementsAre(ElementsAre("1,2", "3,4"))) << "without the byte order mark";
  EXPECT_THAT(ErrorOf({"csv", {Write("head", "x,y\n")}, 1, true}).message(),
              HasSubstr("head: has no records"));
  EXPECT_EQ(ReadCsvHeader(Write("empty", ""), {}, "").status().code(), Code::kDataLoss);
  EXPECT_EQ(ErrorOf({"xml", {one}, 1}).code(), Code::kInvalidArgument);
  EXPECT_EQ(ErrorOf({"csv", {}, 1}).code(), Code::kInvalidArgument);
  EXPECT_EQ(ErrorOf({"csv", {one}, 0}).code(), Code::kInvalidArgument);
}

TEST_F(FilesTest, AddedRecordsBelongToTheLastPartition) {
  const std::string a = Write("a", "x\n1\n2\n3\n"), b = Write("b", "x\n4\n");
  FileSourceOptions options{"csv", {a, b}, 2, true};
  EXPECT_THAT(All(**OpenFiles(options)), ElementsAre(ElementsAre("1", "2"), ElementsAre("3", "4")));
  // Both grow, then the first one, and a file is added.
  options.readings = {{3, 1, 0}, {4, 2, 0}};
  options.paths = {Write("a", "x\n1\n2\n3\n5\n7\n8\n", true), Write("b", "x\n4\n6\n"), Write("c", "x\n9")};
  EXPECT_THAT(All(**OpenFiles(options)),
              ElementsAre(ElementsAre("1", "2"), ElementsAre("3", "4", "5", "6", "7", "8", "9")));
  RecordBatch batch;
  ASSERT_TRUE((*OpenFiles(options))->Read(1, 3, 6, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("6", "7", "8"));
  Write("b", "x\n4\n");
  EXPECT_THAT(ErrorOf(options).message(), HasSubstr("b: has 1 records, fewer than the 2"));
  options.readings = {{3, 1}};
  EXPECT_EQ(ErrorOf(options).code(), Code::kInvalidArgument);
}

TEST_F(FilesTest, AddedTextMakesWindowsOfTheLastPartition) {
  FileSourceOptions options{.format = "text",
                            .paths = {Write("a", "abcdefg"), Write("b", "ABCDE")},
                            .partitions = 2,
                            .sequence = 2};
  EXPECT_THAT(All(**OpenFiles(options)),
              ElementsAre(ElementsAre("abc", "cde"), ElementsAre("efg", "ABC", "CDE")));
  Write("a", "abcdefghi");
  Write("b", "ABCDEFG");
  options.readings = {{3, 2}};
  EXPECT_THAT(All(**OpenFiles(options)),
              ElementsAre(ElementsAre("abc", "cde"), ElementsAre("efg", "ABC", "CDE", "ghi", "EFG")));
}

TEST_F(FilesTest, RecordsOfCsvMayHaveSeveralLines) {
  const std::string one = Write("one", "x,\"a\nname\"\n1,\"p\nq\"\n2,r\n"),
                    two = Write("two", "x,n\n3,\"\n\"", true);
  auto source = OpenFiles({"csv", {one, two}, 3, true});
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_THAT(All(**source),
              ElementsAre(ElementsAre("1,\"p\nq\""), ElementsAre("2,r"), ElementsAre("3,\"\n\"")))
      << "partitions have whole records";
  EXPECT_THAT(*ReadCsvHeader(one, {}, ""), ElementsAre("x", "a\nname"));
  const std::string marked = Write("marked", "\xEF\xBB\xBF\"a\nb\",c\n1,2\n");
  EXPECT_THAT(*ReadCsvHeader(marked, {}, ""), ElementsAre("a\nb", "c"));
  EXPECT_THAT(All(**OpenFiles({"csv", {marked}, 1, true})), ElementsAre(ElementsAre("1,2")));
}

TEST_F(FilesTest, OtherEncodingsBecomeUtf8) {
  const std::string utf16(
      "\xff\xfe"
      "x\0,\0\xe9\0\n\0"
      "1\0,\0"
      "2\0\n\0",
      18);
  FileSourceOptions options{
      .format = "csv", .paths = {Write("latin", "M\xe1laga,1\n")}, .encoding = "latin-1"};
  EXPECT_THAT(All(**OpenFiles(options)), ElementsAre(ElementsAre("Málaga,1")));
  options = {.format = "csv", .paths = {Write("wide", utf16, true)}, .header = true, .encoding = "UTF-16"};
  EXPECT_THAT(All(**OpenFiles(options)), ElementsAre(ElementsAre("1,2")));
  EXPECT_THAT(*ReadCsvHeader(options.paths[0], {}, "utf16"), ElementsAre("x", "é"));
  options.encoding = "klingon";
  EXPECT_THAT(ErrorOf(options).message(), HasSubstr("wide: there is no encoding 'klingon'"));
  // More than a block, so that characters are cut between two.
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += std::string("\xe9\0\n\0", 4);
  options = {.format = "csv", .paths = {Write("many", many)}, .encoding = "utf-16le"};
  auto source = OpenFiles(options);
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ((*(*source)->Ranges())[0].end, 100'000u);
  options.paths = {Write("cut", many.substr(0, many.size() - 3))};
  EXPECT_THAT(ErrorOf(options).message(), HasSubstr("cut: byte 399996 is not text of its encoding"));
  EXPECT_THAT(ReadCsvHeader(Write("broken", "a\xe1,b\n1,2\n"), {}, "").status().message(),
              HasSubstr("broken: the header is not UTF-8 (byte 0xe1 at 1)"));
}

// An error is one line: the file, its kind, a remedy.
TEST_F(FilesTest, FilesOfAnotherKindAreNamed) {
  const auto why = [&](const std::string& bytes, const std::string& format = "csv") {
    const Status status = ErrorOf({.format = format, .paths = {Write("f", bytes)}, .sequence = 2});
    EXPECT_EQ(status.code(), Code::kDataLoss);
    EXPECT_THAT(status.message(), ::testing::StartsWith(dir_ / "f: "));
    return status.message();
  };
  const auto wide = [](const std::string& text) {
    std::string bytes;
    for (const char c : text) bytes += {c, '\0'};
    return bytes;
  };
  EXPECT_THAT(why("BZh91AY&SY\x01\x02"), AllOf(HasSubstr("bzip2"), HasSubstr("bunzip2 -k")));
  EXPECT_THAT(why(std::string("\xfd\x37zXZ\0\0", 7), "json"), AllOf(HasSubstr("xz"), HasSubstr("xz -dk")));
  EXPECT_THAT(why("\x28\xb5\x2f\xfd\x01"), HasSubstr("zstd -d"));
  EXPECT_THAT(why(std::string("PK\x03\x04 data.csv", 13), "text"),
              AllOf(HasSubstr("zip archive"), HasSubstr("unzip")));
  EXPECT_THAT(why(std::string("PK\x03\x04 [Content_Types].xml xl/", 28)),
              HasSubstr("Excel (xlsx); save it as CSV"));
  EXPECT_THAT(why("PAR1\x15\x04"), AllOf(HasSubstr("Parquet"), HasSubstr("read_parquet(")));
  EXPECT_THAT(why("\xff\xfe" + wide("a,b\n1,2\n")),
              AllOf(HasSubstr("utf-16 text"), HasSubstr("encoding: utf-16")));
  EXPECT_THAT(why(wide("a,b\n1,2\n")), HasSubstr("utf-16le text"));
  EXPECT_THAT(why("a,b\r1,2\r3,4\r"), AllOf(HasSubstr("CR alone"), HasSubstr("tr '\\r' '\\n'")));
  EXPECT_THAT(why("[{\"a\":1},{\"a\":2}]", "json"),
              AllOf(HasSubstr("is a JSON array"), HasSubstr("jq -c '.[]'")));
  EXPECT_THAT(why("\n[\n  {\"a\":1}\n]", "csv"), HasSubstr("is a JSON array"));
  EXPECT_THAT(why("{\n  \"a\": 1\n}\n", "json"), HasSubstr("objects of several lines"));
  EXPECT_THAT(why("{\"a\": 1}\n", "csv"), HasSubstr("say format: json"));
  EXPECT_THAT(why("<!DOCTYPE html>\n<html>"), HasSubstr("HTML page"));
  EXPECT_THAT(why("<?xml version=\"1.0\"?>\n"), HasSubstr("is XML"));
  EXPECT_THAT(why("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(why("a,b\n1,2\r3,4\r"), HasSubstr("CR alone")) << "behind the header";
  EXPECT_THAT(why("sep=;\na;b\n1;2\n"),
              HasSubstr("begins with sep=;, a line for Excel; remove it: tail -n +2 "));
  EXPECT_THAT(why("% by hand\n%\n@RELATION x\n@attribute a numeric\n@data\n1\n"), HasSubstr("ARFF file"));
  for (const char* good :
       {"BZh,1\n", "PK,2\n", "[1,2\n", "a\r\nb\r\n", "7z\n", "a,\"b\rc\"\n", "[a]\n", "ORC,x\n1,2\n",
        "a,b\n1,\"2\r3\"\n", "a\n\"2\r3\"", "x^2,y\n1,2\n", "sep=;,x\n1,2\n", "%,y\n1,2\n"})
    EXPECT_TRUE(ErrorOf({.format = "csv", .paths = {Write("f", good)}}).ok()) << good;
}

TEST_F(FilesTest, BinaryFilesAreNamed) {
  const auto why = [&](const std::string& bytes) {
    return ErrorOf({.format = "csv", .paths = {Write("f", bytes)}}).message();
  };
  EXPECT_THAT(why(std::string("\x5d\0\0\x80\0\xff\xff", 7)), AllOf(HasSubstr("lzma"), HasSubstr("xz -dk")));
  for (const char* bytes : {"\x78\x01\x4b\x04", "\x78\x9c\x4b\x04", "\x78\xda\x4b\x04"})
    EXPECT_THAT(why(bytes),
                AllOf(HasSubstr("compressed by zlib"), HasSubstr("zlib.decompress(open(\"" + dir_.path())));
  EXPECT_THAT(why("\x1f\x9d\x90"), HasSubstr("gzip -dk"));
  EXPECT_THAT(why(std::string("ORC\n\0\x01", 6)), HasSubstr("read_orc("));
  EXPECT_THAT(why("\x80\x04\x95\x10"), HasSubstr("read_pickle("));
  EXPECT_THAT(why("<stata_dta><header>"), HasSubstr("read_stata("));
  EXPECT_THAT(why(std::string("\x72\x02\x01\0", 4)), HasSubstr("read_stata("));
  EXPECT_THAT(why("MATLAB 5.0 MAT-file, Platform: posix"), HasSubstr("scipy.io.loadmat(\"" + dir_.path()));
  EXPECT_THAT(why("\x89PNG\r\n\x1a\n"), HasSubstr("is a PNG picture"));
}

TEST_F(FilesTest, JsonThatHasNoObjectPerLineIsNamed) {
  // As `leat schema` does, which has no format to go by.
  const auto why = [&](const std::string& text, const std::string& format) {
    const auto opened = FileReader::Open(Write("f", text), {.format = format});
    return opened.ok() ? "" : opened.status().message();
  };
  for (const char* format : {"json", "csv", ""}) {
    SCOPED_TRACE(format);
    const auto found = [&](const std::string& text) { return why(text, format); };
    EXPECT_THAT(found("[[0,1],[1,2]]\n"), HasSubstr("is a JSON array of arrays"));
    EXPECT_THAT(found("[[0,1],\n" + std::string(100'000, ' ')), HasSubstr("is a JSON array of arrays"));
    EXPECT_THAT(found("[0, \"]\", true]\n[1, 2, 0]\n"),
                HasSubstr("has JSON arrays, whose values have no names"));
    EXPECT_THAT(found("[]\n"), HasSubstr("is an empty JSON array"));
    EXPECT_THAT(found("[1,\n2]\n"), HasSubstr("jq -r '.[]'"));
    EXPECT_THAT(found("[{\"a\": 1}, {\"a\": 2}]"), HasSubstr("jq -c '.[]'"));
    EXPECT_THAT(found(R"({"a":{"0":1,"1":2},"y":{"0":0,"1":1}})"),
                AllOf(HasSubstr("is one JSON object that holds columns"),
                      HasSubstr("f\").to_json(\"f.new.jsonl\", orient=\"records\", lines=True)")));
    EXPECT_THAT(found(R"({"a":{"0":)" + std::string(100'000, '1')), HasSubstr("holds columns")) << "cut off";
    EXPECT_THAT(found(R"({"columns":["a","y"],"index":[0],"data":[[1,2]]})"), HasSubstr("orient=\"split\""));
    EXPECT_THAT(found(R"({"0":{"a":1,"y":0},"1":{"a":2,"y":1}})"), HasSubstr("orient=\"index\""));
    EXPECT_THAT(found(R"({"schema":{"fields":[]},"data":[]})"), HasSubstr("orient=\"table\""));
    EXPECT_THAT(found("{\n  \"data\": [\n    {\"a\": 1}\n]}\n"), HasSubstr("jq -c '.data[]'"));
    EXPECT_THAT(found("{\"data\": [{\"a\": 1}," + std::string(100'000, ' ')), HasSubstr("jq -c '.data[]'"));
  }
  for (const char* good :
       {R"({"a":{"0":1},"y":0})", R"({"items":[{"a":1}],"y":0})", R"({"a":{"b":1},"c":{"b":1}})",
        R"({"a":[1,2]})", "{\"a\":{\"0\":1}}\n{\"a\":{\"0\":2}}\n", "{}\n{}"})
    EXPECT_EQ(why(good, "json"), "") << good;
  EXPECT_EQ(why("{\"events\": [{\"a\": 1}," + std::string(100'000, ' '), "json"), "") << "a long record";
}

TEST_F(FilesTest, CutsTextIntoWindows) {
  const std::string one = Write("one", "abcdefghij"), two = Write("two", "0123456", true);
  FileSourceOptions options{.format = "text", .paths = {one, two}, .partitions = 1, .sequence = 3};
  const auto windows = [&] {
    auto source = OpenFiles(options);
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    std::vector<std::string> all;
    for (const auto& partition : All(**source)) all.insert(all.end(), partition.begin(), partition.end());
    return all;
  };
  // The rest at the end of a file is not a record and does not continue in the next file.
  const std::vector<std::string> whole = {"abcd", "defg", "ghij", "0123", "3456"};
  EXPECT_EQ(windows(), whole);
  options.partitions = 2;
  EXPECT_EQ(windows(), whole);
  options.partitions = 7;
  EXPECT_EQ(windows(), whole) << "partitions may be empty";
  auto source = OpenFiles(options);
  options.partitions = 1;
  RecordBatch batch;
  source = OpenFiles(options);
  ASSERT_TRUE((*source)->Read(0, 2, 4, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("ghij", "0123"));
  EXPECT_EQ(batch.data.size(), 8 + RecordBatch::kPadding);
  ASSERT_TRUE((*source)->Read(0, 5, 5, &batch).ok());
  EXPECT_EQ(batch.size(), 0u);
  EXPECT_EQ((*source)->Read(0, 4, 6, &batch).code(), Code::kFailedPrecondition);
  options.stride = 5;
  EXPECT_THAT(windows(), ElementsAre("abcd", "fghi", "0123"));
  options.stride = 1;
  EXPECT_EQ(windows().size(), 7u + 4u);
}

TEST_F(FilesTest, PartsOfTextShareNothing) {
  std::string text(1001, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i * i % 26);
  const std::string path = Write("text", text);
  for (const double at : {0.1, 0.5, 0.9, 0.333}) {
    FileSourceOptions options{.format = "text", .paths = {path}, .sequence = 1, .part_end = at};
    std::string joined;
    const auto first = All(**OpenFiles(options))[0];
    options.part_begin = at, options.part_end = 1;
    const auto second = All(**OpenFiles(options))[0];
    for (const auto& part : {first, second}) {
      for (const auto& record : part) joined += record.substr(0, 1);
      joined += part.back().substr(1);
    }
    EXPECT_EQ(joined, text) << at;
  }
}

TEST_F(FilesTest, SaysWhatIsWrongWithText) {
  const std::string path = Write("text", "0123456789");
  FileSourceOptions options{.format = "text", .paths = {path}, .sequence = 9};
  EXPECT_TRUE(OpenFiles(options).ok());
  options.sequence = 10;
  EXPECT_EQ(ErrorOf(options).message(), path + ": has 10 characters, too few for a record of 11");
  options.sequence = 5;
  options.part_begin = 0.5;
  EXPECT_THAT(ErrorOf(options).message(),
              HasSubstr("has 5 characters in its part, too few for a record of 6"));
  options.part_begin = 1;
  EXPECT_EQ(ErrorOf(options).code(), Code::kInvalidArgument);
  options.part_begin = 0;
  options.sequence = 0;
  EXPECT_EQ(ErrorOf(options).code(), Code::kInvalidArgument);
  options.paths = {dir_ / "none"};
  options.sequence = 1;
  EXPECT_EQ(ErrorOf(options).code(), Code::kNotFound);
}

// The real files, if available: LEAT_DATA is the folder with mnist/.
TEST(Files, ReadsMnist) {
  const char* data = std::getenv("LEAT_DATA");
  if (data == nullptr) GTEST_SKIP() << "LEAT_DATA is not set: it names the folder with mnist/";
  const std::string folder = std::string(data) + "/mnist/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no data set mnist in LEAT_DATA=" << data;
  auto source =
      OpenFiles({"idx", {folder + "t10k-images-idx3-ubyte.gz", folder + "t10k-labels-idx1-ubyte.gz"}, 1});
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ((*(*source)->Ranges())[0].end, 10'000u);
  RecordBatch batch;
  ASSERT_TRUE((*source)->Read(0, 0, 5, &batch).ok());
  std::string labels;
  for (size_t i = 0; i < 5; ++i) labels += static_cast<char>('0' + std::to_integer<int>(batch[i].back()));
  EXPECT_EQ(labels, "72104");
}

}  // namespace
}  // namespace leat::stream
