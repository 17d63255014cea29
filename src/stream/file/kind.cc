#include "stream/file/file_reader.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "stream/json/json_text.h"

namespace leat::stream {
namespace {

// True for bytes that text has not, in the beginning. \x01 and \x1f divide columns.
bool HasControls(std::string_view head) {
  return std::ranges::any_of(head.substr(0, 4096), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x08 || (byte > 0x0d && byte < 0x20)) && byte != 0x01 && byte != 0x1f;
  });
}

bool IsZlib(std::string_view head) {
  z_stream zlib{};
  if (inflateInit(&zlib) != Z_OK) return false;
  std::array<Bytef, 4096> out;
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(head.data()));
  zlib.avail_in = static_cast<uInt>(head.size());
  zlib.next_out = out.data();
  zlib.avail_out = out.size();
  const int code = inflate(&zlib, Z_SYNC_FLUSH);
  inflateEnd(&zlib);
  return code == Z_OK || code == Z_STREAM_END;
}

// A kind of file by the bytes at a place. FILE in the remedy is the file's name, NEW.csv that of a new file.
struct Magic {
  size_t at;
  std::string_view bytes;
  const char* what;
  const char* remedy;
  bool (*is)(std::string_view head) = nullptr;  // text can begin with the bytes, too
};

constexpr const char* kUnpack = "plain and gzip files can be read; unpack it: ";
constexpr const char* kFromZlib =
    "python3 -c 'import sys, zlib; sys.stdout.buffer.write(zlib.decompress(open(\"FILE\", \"rb\").read()))'";
constexpr const char* kPixels = "write its pixels as numbers, such as to files of the format idx";
constexpr const char* kFromPandas = "write it as CSV, such as with pandas: read_";

constexpr Magic kMagic[] = {
    {0, "\x1f\x8b", "is compressed by gzip twice", "unpack it: gunzip -k FILE"},
    {4, "1AY&SY", "is compressed by bzip2", "bunzip2 -k FILE"},
    {0, {"\xfd\x37zXZ\0", 6}, "is compressed by xz", "xz -dk FILE"},
    {0, {"\x5d\0\0", 3}, "is compressed by lzma", "xz -dk FILE"},
    {0, "\x1f\x9d", "is compressed by compress", "gzip -dk FILE"},
    {0, "\x78", "is compressed by zlib", kFromZlib, IsZlib},
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
    {0, "FEA1", "is a Feather file", "feather", HasControls},
    {0, "ORC", "is an ORC file", "orc", HasControls},
    {0, "\x89HDF\r\n\x1a\n", "is an HDF5 file", "hdf"},
    {0, "\x80\x02", "is a pickle of Python", "pickle"},
    {0, "\x80\x03", "is a pickle of Python", "pickle"},
    {0, "\x80\x04", "is a pickle of Python", "pickle"},
    {0, "\x80\x05", "is a pickle of Python", "pickle"},
    {0, "<stata_dta>", "is a data set of Stata", "stata"},
    {0, "\x71\x01\x01", "is a data set of Stata", "stata"},
    {0, "\x71\x02\x01", "is a data set of Stata", "stata"},
    {0, "\x72\x01\x01", "is a data set of Stata", "stata"},
    {0, "\x72\x02\x01", "is a data set of Stata", "stata"},
    {0, "\x73\x01\x01", "is a data set of Stata", "stata"},
    {0, "\x73\x02\x01", "is a data set of Stata", "stata"},
    {0, "$FL2", "is a data set of SPSS", "spss", HasControls},
    {0, "MATLAB 5.0 MAT-file", "is a MAT-file of Matlab",
     "write its arrays as CSV; scipy.io.loadmat(\"FILE\") reads them"},
    {0, "MATLAB 7.3 MAT-file", "is a MAT-file of Matlab",
     "write its arrays as CSV; h5py.File(\"FILE\") reads them"},
    {0,
     {"X\n\0\0", 4},
     "is an RDS file of R",
     "write.csv(readRDS(\"FILE\"), \"NEW.csv\", row.names = FALSE)"},
    {0, "\x89PNG\r\n\x1a\n", "is a PNG picture", kPixels},
    {0, "\xff\xd8\xff", "is a JPEG picture", kPixels},
    {0, "\x93NUMPY", "is an array of NumPy",
     "write it as CSV: numpy.savetxt(\"NEW.csv\", a, delimiter=\",\")"},
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
  return head.size() >= magic.at && head.substr(magic.at).starts_with(magic.bytes) &&
         (magic.is == nullptr || magic.is(head));
}

std::string WithFile(std::string remedy, const std::string& path) {
  if (const size_t at = remedy.find("FILE"); at != remedy.npos) {
    const bool word = at == 0 || remedy[at - 1] != '"';
    remedy.replace(at, 4, word ? ShellWord(path) : path);
  }
  if (const size_t at = remedy.find("NEW.csv"); at != remedy.npos)
    remedy.replace(at, 7, NewFile(path, ".csv"));
  return remedy;
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

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view FirstLine(std::string_view text) {
  std::string_view line = text.substr(0, text.find('\n'));
  while (!line.empty() && kBlanks.find(line.back()) != line.npos) line.remove_suffix(1);
  return line;
}

std::string_view WithoutBlanks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
}

// Old Macs ended lines with CR alone. Some programs then write LF behind the header.
bool EndsLinesInCr(std::string_view head) {
  const size_t line_feed = head.find('\n');
  const std::string_view rest = line_feed == head.npos ? head : head.substr(line_feed + 1);
  const size_t at = rest.find('\r');
  if (at == rest.npos || rest.find('\n') != rest.npos) return false;
  const bool in_quotes = std::ranges::count(rest.substr(0, at), '"') % 2 > 0;
  return !in_quotes && !WithoutBlanks(rest.substr(at)).empty();
}

// Why text that begins with a bracket is a JSON array; empty if it is something else. `json`: it should be.
std::string WhyArray(std::string_view text, bool json, const std::string& path) {
  const std::string_view inner = WithoutBlanks(text.substr(1));
  const size_t end = EndOfJson(text);
  const std::string_view rest = end == text.npos ? "" : text.substr(end);
  const std::string word = ShellWord(path), to_csv = word + " > " + NewFile(path, ".csv");
  if (!inner.starts_with('{')) {
    const bool value = std::ranges::any_of(std::initializer_list<std::string_view>{"true", "false", "null"},
                                           [&](auto literal) { return inner.starts_with(literal); }) ||
                       (!inner.empty() && std::string_view("[]\"-0123456789").find(inner[0]) != inner.npos);
    const bool alone = end == text.npos ? inner.starts_with('[') : FirstLine(rest).empty();
    if (value && alone && !WithoutBlanks(rest).empty())
      return "has JSON arrays, whose values have no names; write them as CSV: jq -r '@csv' " + to_csv;
    if (value && alone && inner.starts_with('['))
      return "is a JSON array of arrays, whose values have no names; write them as CSV: jq -r '.[] | @csv' " +
             to_csv;
    if (value && alone && inner.starts_with(']')) return "is an empty JSON array; it has no records";
    if (value && alone) return "is a JSON array of values; write one per line: jq -r '.[]' " + to_csv;
    if (!json) return "";
  }
  return "is a JSON array; one object per line is needed: jq -c '.[]' " + word + " > " +
         NewFile(path, ".jsonl") + " (pandas: to_json(\"" + NewFile(path, ".jsonl") +
         "\", orient=\"records\", lines=True))";
}

// A member of a JSON object, by the beginning of its value.
struct Member {
  std::string_view key;
  char opens = '\0';       // the first character of the value
  std::string_view inner;  // an object: its first key; else what follows that character
};

// Moves behind a character; false if it does not come next.
bool Take(std::string_view* text, char c) {
  *text = WithoutBlanks(*text);
  if (!text->starts_with(c)) return false;
  text->remove_prefix(1);
  return true;
}

bool TakeKey(std::string_view* text, std::string_view* key) {
  if (!Take(text, '"')) return false;
  size_t end = 0;
  while (end < text->size() && (*text)[end] != '"') end += (*text)[end] == '\\' ? 2 : 1;
  if (end >= text->size()) return false;
  *key = text->substr(0, end);
  text->remove_prefix(end + 1);
  return Take(text, ':');
}

// The first members of an object, up to one that is neither an array nor an object.
std::vector<Member> FirstMembers(std::string_view text) {
  constexpr size_t kLooked = 8;
  std::vector<Member> members;
  Member one;
  Take(&text, '{');
  while (members.size() < kLooked && TakeKey(&text, &one.key)) {
    text = WithoutBlanks(text);
    std::string_view value = text;
    one.opens = value.empty() ? '\0' : value[0];
    one.inner = {};
    if (Take(&value, '{')) {
      TakeKey(&value, &one.inner);
    } else if (Take(&value, '[')) {
      one.inner = WithoutBlanks(value);
    }
    members.push_back(one);
    const bool nested = one.opens == '[' || one.opens == '{';
    const size_t end = nested ? EndOfJson(text) : text.npos;
    if (end == text.npos) break;
    text.remove_prefix(end);
    if (!Take(&text, ',')) break;
  }
  return members;
}

// Why the only object of a file is a whole table, as pandas and others write it; empty if it is none.
std::string WhyTable(std::string_view text, const std::string& path) {
  const size_t end = EndOfJson(text);
  const bool cut = end == text.npos;
  if (!cut && !WithoutBlanks(text.substr(end)).empty()) return "";
  const std::vector<Member> members = FirstMembers(text);
  if (members.empty()) return "";
  const Member& first = members.front();
  // A long record of a file with many may begin with a list, too.
  const bool rows =
      std::ranges::any_of(std::initializer_list<std::string_view>{"data", "records", "results", "rows"},
                          [&](auto key) { return first.key == key; });
  const auto table = [&](const std::string& orient) {
    return "is one JSON object that holds " + std::string(orient.empty() ? "columns" : "all rows") +
           "; one object per line is needed: pandas.read_json(\"" + path + "\"" +
           (orient.empty() ? "" : ", orient=\"" + orient + "\"") + ").to_json(\"" + NewFile(path, ".jsonl") +
           "\", orient=\"records\", lines=True)";
  };
  if (first.key == "columns" && first.opens == '[' &&
      (members.size() == 1 || members[1].key == "index" || members[1].key == "data"))
    return table("split");
  if (first.key == "schema" && first.inner == "fields") return table("table");
  const bool plain =
      std::ranges::all_of(first.key, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  if (first.opens == '[' && first.inner.starts_with('{') && members.size() == 1 && (cut ? rows : plain))
    return "is one JSON object that holds all rows; one object per line is needed: jq -c '." +
           std::string(first.key) + "[]' " + ShellWord(path) + " > " + NewFile(path, ".jsonl");
  const bool alike = std::ranges::all_of(members, [&](const Member& member) {
    return member.opens == '{' && !member.inner.empty() && member.inner == first.inner;
  });
  const auto numbered = [](std::string_view key) {
    return !key.empty() && std::isdigit(static_cast<unsigned char>(key[0])) != 0;
  };
  if (alike && numbered(first.inner)) return table("");
  return alike && numbered(first.key) ? table("index") : "";
}

// Names the lines above the records of a table; empty if there are none.
std::string WhyPreamble(std::string_view text, const std::string& path) {
  const std::string lower = Lower(text.substr(0, 16));
  const std::string_view line = FirstLine(text);
  if (lower.starts_with("sep=") && line.size() <= 5)
    return "begins with " + std::string(line) + ", a line for Excel; remove it: " + FromLine(path, 2);
  while (text.starts_with('%')) text = WithoutBlanks(text.substr(std::min(text.find('\n'), text.size())));
  if (Lower(text.substr(0, 16)).starts_with("@relation"))
    return "is an ARFF file of Weka; write it as CSV: python3 -c 'import pandas, scipy.io.arff as a; "
           "pandas.DataFrame(a.loadarff(\"" +
           path + "\")[0]).to_csv(\"" + NewFile(path, ".csv") + "\", index=False)'";
  return "";
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
    return table ? text + kFromPandas + std::string(remedy) + "(\"" + path + "\").to_csv(\"" +
                       NewFile(path, ".csv") + "\", index=False)"
                 : text + WithFile(std::string(remedy), path);
  }
  if (encoded || format == "idx" || format == "text") return "";
  const std::string wide = WideEncoding(head);
  if (wide.empty()) return "";
  return "is " + wide + " text, not UTF-8; name the encoding (files: encoding: " + wide +
         "), or convert it: iconv -f " + wide + " -t utf-8 " + ShellWord(path);
}

std::string WrongText(std::string_view head, std::string_view format, const std::string& path) {
  if (format == "idx" || format == "text") return "";
  if (EndsLinesInCr(head))
    return "ends its lines with CR alone, as old Macs did; convert it: tr '\\r' '\\n' < " + ShellWord(path) +
           " > " + NewFile(path, ".csv");
  const std::string_view text = WithoutBlanks(head);
  if (text.empty()) return "";
  const std::string lower = Lower(text.substr(0, 16));
  if (lower.starts_with("<!doctype html") || lower.starts_with("<html"))
    return "is an HTML page, not the data; was its address that of a page, or a login?";
  if (lower.starts_with("<?xml")) return "is XML; write its records as CSV or JSON lines";
  if (text[0] == '[') return WhyArray(text, format == "json", path);
  if (text[0] != '{') return format == "json" ? "" : WhyPreamble(text, path);
  if (std::string table = WhyTable(text, path); !table.empty()) return table;
  if (format == "csv") {
    if (WithoutBlanks(text.substr(1)).starts_with('"'))
      return "has JSON objects; say format: json, in stream: files: and in schema:";
    return "";
  }
  if (FirstLine(text) == "{")
    return "has objects of several lines; one object per line is needed: jq -c . " + ShellWord(path) + " > " +
           NewFile(path, ".jsonl");
  return "";
}

std::string ShellWord(const std::string& path) {
  const bool plain = !path.empty() && path[0] != '-' && std::ranges::all_of(path, [](unsigned char c) {
    return c > 0x7f || std::isalnum(c) != 0 ||
           std::string_view("_./+-,:@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string NewFile(const std::string& path, const std::string& extension) {
  return ShellWord(std::filesystem::path(path).stem().string() + ".new" + extension);
}

std::string FromLine(const std::string& path, size_t line) {
  return StrCat("tail -n +", line, " ", ShellWord(path), " > ", NewFile(path, ".csv"));
}

}  // namespace leat::stream
