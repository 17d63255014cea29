#include "stream/file/kind.h"

#include <algorithm>
#include <cctype>

namespace leat::stream {
namespace {

// A kind of file by the bytes at a place. FILE in the remedy is the file's name.
struct Magic {
  size_t at;
  std::string_view bytes;
  const char* what;
  const char* remedy;
};

constexpr const char* kUnpack = "plain and gzip files can be read; unpack it: ";
constexpr const char* kFromPandas = "write it as CSV, such as with pandas: read_";

constexpr Magic kMagic[] = {
    {0, "\x1f\x8b", "is compressed by gzip twice", "unpack it: gunzip -k FILE"},
    {4, "1AY&SY", "is compressed by bzip2", "bunzip2 -k FILE"},
    {0, {"\xfd\x37zXZ\0", 6}, "is compressed by xz", "xz -dk FILE"},
    {0, "\x28\xb5\x2f\xfd", "is compressed by zstd", "zstd -d FILE"},
    {0, "\x04\x22\x4d\x18", "is compressed by lz4", "lz4 -d FILE"},
    {0, "7z\xbc\xaf\x27\x1c", "is a 7z archive", "7z x FILE"},
    {0, "Rar!\x1a\x07", "is a rar archive", "unrar x FILE"},
    {0, {"PK\x03\x04", 4}, "is a zip archive", "unzip FILE"},
    {257, "ustar", "is a tar archive", "tar -xf FILE"},
    {0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is a workbook of Excel, or another file of Office",
     "save it as CSV"},
    {0, "PAR1\x15", "is a Parquet file", "parquet"},
    {0, {"ARROW1\0", 7}, "is an Arrow file", "feather"},
    {0, "\x89HDF\r\n\x1a\n", "is an HDF5 file", "hdf"},
    {0, "\x93NUMPY", "is an array of NumPy",
     "write it as CSV: numpy.savetxt(\"rows.csv\", a, delimiter=\",\")"},
    {0,
     {"SQLite format 3\0", 16},
     "is a database of SQLite",
     "write a table as CSV: sqlite3 -header -csv FILE 'select * from TABLE'"},
    {0,
     {"Obj\x01", 4},
     "is a container of Avro records",
     "publish the records to a topic, or write them as JSON lines"},
    {0, "%PDF-", "is a PDF document", "its table has to be saved as CSV"},
    {0, "version https://git-lfs.github.com/spec/", "is a pointer of Git LFS, not the data", "git lfs pull"},
};

bool BeginsWith(std::string_view head, const Magic& magic) {
  return head.size() >= magic.at && head.substr(magic.at).starts_with(magic.bytes);
}

std::string WithFile(std::string remedy, const std::string& path) {
  const size_t at = remedy.find("FILE");
  return at == remedy.npos ? remedy : remedy.replace(at, 4, path);
}

// The name of the encoding of wide characters, by a mark or by the zeros of ASCII text; empty for others.
std::string WideEncoding(std::string_view head) {
  using std::string_view;
  if (head.starts_with(string_view("\xff\xfe\0\0", 4)) || head.starts_with(string_view("\0\0\xfe\xff", 4)))
    return "utf-32";
  if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff")) return "utf-16";
  head = head.substr(0, 1024);
  size_t zeros[2] = {0, 0};
  for (size_t i = 0; i < head.size(); ++i) zeros[i % 2] += head[i] == '\0';
  const size_t pairs = head.size() / 2;
  if (pairs < 4) return "";
  if (zeros[1] * 10 >= pairs * 9 && zeros[0] * 10 <= pairs) return "utf-16le";
  if (zeros[0] * 10 >= pairs * 9 && zeros[1] * 10 <= pairs) return "utf-16be";
  return "";
}

std::string LowerStart(std::string_view text) {
  std::string lower;
  for (const char c : text.substr(0, 16))
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string_view FirstLine(std::string_view text) {
  std::string_view line = text.substr(0, text.find('\n'));
  while (!line.empty() && std::string_view(" \t\r").find(line.back()) != line.npos) line.remove_suffix(1);
  return line;
}

}  // namespace

std::string WrongBytes(std::string_view head, std::string_view format, const std::string& path,
                       bool encoded) {
  if (head.starts_with(std::string_view("\0\0\x08", 3)) && (format == "idx" || format.empty())) return "";
  const auto* const magic =
      std::ranges::find_if(kMagic, [&](const Magic& known) { return BeginsWith(head, known); });
  if (magic != std::end(kMagic)) {
    const std::string_view what = magic->what, remedy = magic->remedy;
    std::string text = std::string(what) + "; ";
    if (what == "is a zip archive" &&
        (head.find("[Content_Types].xml") != head.npos || head.find("xl/") != head.npos))
      return "is a workbook of Excel (xlsx); save it as CSV";
    const bool packed = what.find("compressed by") != what.npos || what.find("archive") != what.npos;
    if (packed && remedy.find("unpack") == remedy.npos) text += kUnpack;
    const bool table = remedy.find(' ') == remedy.npos;
    return table ? text + kFromPandas + std::string(remedy) + "(\"" + path + "\").to_csv(\"rows.csv\")"
                 : text + WithFile(std::string(remedy), path);
  }
  if (encoded || format == "idx" || format == "text") return "";
  const std::string wide = WideEncoding(head);
  if (wide.empty()) return "";
  return "is " + wide + " text, not UTF-8; name the encoding (files: encoding: " + wide +
         "), or convert it: iconv -f " + wide + " -t utf-8 " + path;
}

std::string WrongText(std::string_view head, std::string_view format, const std::string& path) {
  if (format == "idx" || format == "text") return "";
  if (head.find('\n') == head.npos) {
    const size_t at = head.find('\r');
    if (at != head.npos && head.find_first_not_of(" \t\r", at) != head.npos)
      return "ends its lines with CR alone, as old Macs did; convert it: tr '\\r' '\\n' < " + path;
  }
  const size_t begin = head.find_first_not_of(" \t\r\n");
  if (begin == head.npos) return "";
  const std::string_view text = head.substr(begin);
  const std::string lower = LowerStart(text);
  if (lower.starts_with("<!doctype html") || lower.starts_with("<html"))
    return "is an HTML page, not the data; was its address that of a page, or a login?";
  if (lower.starts_with("<?xml")) return "is XML; write its records as CSV or JSON lines";
  const size_t inner = text.find_first_not_of(" \t\r\n", 1);
  const bool objects = text[0] == '[' && inner != text.npos && text[inner] == '{';
  if (objects || (text[0] == '[' && format == "json")) {
    return "is a JSON array; one object per line is needed: jq -c '.[]' " + path +
           " > rows.jsonl (pandas: to_json(\"rows.jsonl\", orient=\"records\", lines=True))";
  }
  if (format == "csv") {
    if (text[0] == '{' && inner != text.npos && text[inner] == '"')
      return "has JSON objects; say format: json, in stream: files: and in schema:";
    return "";
  }
  if (FirstLine(text) == "{")
    return "has objects of several lines; one object per line is needed: jq -c . " + path + " > rows.jsonl";
  return "";
}

}  // namespace leat::stream
