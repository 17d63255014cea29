// Names files that are something else than text with a record per line, and says what to do with them.
#pragma once

#include <string>
#include <string_view>

namespace leat::stream {

// Why a file that begins with these bytes (after gzip) cannot be read as `format`, "csv", "json", "text" or
// "idx", or as one of them if it is empty: "is a zip archive; …". Empty if nothing speaks against it. `path`
// is for the commands that the text suggests. `encoded`: the job says that its text is not UTF-8.
std::string WrongBytes(std::string_view head, std::string_view format, const std::string& path, bool encoded);

// The same of the beginning of its text, which is converted to UTF-8.
std::string WrongText(std::string_view head, std::string_view format, const std::string& path);

// Parts of the commands that messages propose for a file.

// The path as a word of the shell.
std::string ShellWord(const std::string& path);
// A name for what a command makes of the file; never the file's own. "data/rows.txt", ".csv" →
// "rows.new.csv".
std::string NewFile(const std::string& path, const std::string& extension);
// "tail -n +3 rows.csv > rows.new.csv", for the file without the lines before this one.
std::string FromLine(const std::string& path, size_t line);

}  // namespace leat::stream
