// Files and records that a job reads: CSV headers, schemas, checks before it starts, and what it has trained.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config/config.h"
#include "job/job.h"
#include "stream/csv/csv_settings.h"
#include "stream/files.h"
#include "stream/schema.h"
#include "stream/source.h"

namespace leat::job {

// Detects the delimiter and the column names of CSV files.

// Returns the delimiter, which must be the same in all files; nothing if a file cannot be read (opening the
// stream reports that). Throws std::invalid_argument if two delimiters are equally likely or files differ.
std::optional<stream::Delimiter> FindDelimiter(const stream::FileSourceOptions& files,
                                               const stream::Schema& schema);

// Returns the names in the first record. Throws std::invalid_argument if files differ or cannot be read.
std::vector<std::string> ReadHeader(const stream::FileSourceOptions& files, const stream::CsvDialect& csv);

// Whether a record names the fields of the schema, in any order.
bool NamesFields(const stream::Schema& schema, std::string_view record);

// Sets the columns of the schema to those of the header. Throws std::invalid_argument with the file if a
// field is not among them; if a line below names them, with the command that removes the lines above.
void UseHeader(const stream::FileSourceOptions& files, std::vector<std::string> names,
               stream::Schema* schema);

// The files that the schema of a job names, Avro schemas or a Protobuf descriptor: read where the job is
// loaded and then kept in its `resolved:` section.

// Completes a schema from `resolved`, or else from the files, whose paths are relative to `data` or to the
// current directory. Throws std::invalid_argument with the place if they do not fit. Returns why schemas of a
// folder do not fit, one line each; these are left out.
std::vector<std::string> ReadSchemaFiles(const Config& resolved, const std::string& data,
                                         stream::Schema* schema);

// To `resolved: {avro: {ID: TEXT}}` or `resolved: {descriptor: TEXT}`, what the schema's files contain; no
// entry if there are none.
Config WithSchemaFiles(const Config& resolved, const stream::Schema& schema);

// The texts of the files that the settings name, without blanks. Throws as above.
stream::AvroTexts ReadAvroFiles(const stream::AvroSettings& avro, const std::string& data);

// Checks before a job starts that everything it reads exists and matches its schema.

// All throw std::invalid_argument with the path or topic and the values.

// Opens everything that the job reads, and checks that this machine has the devices of its layers. Returns
// warnings, one line each.
std::vector<std::string> CheckReadable(const Job& job);

// Checks that need only the open stream.
// Checks that the first records of files, or of a source of the program's own, in these ranges match the
// schema. Returns a warning for each category of which no value occurs in them.
std::vector<std::string> CheckFits(const Job& job, stream::Source& source,
                                   const std::vector<stream::PartitionRange>& ranges);
// Checks that there are records, unless the job may wait for them.
void CheckNotEmpty(const Job& job, const std::vector<stream::PartitionRange>& ranges);

// The inputs of a job that is resumed, compared with what its last run has read.

// The job, whose inputs are on this host, with their identities. `trained`: the identities that the last run
// has read (Job::inputs); empty: they are unknown, and nothing is compared. Files may have grown at their
// end, and others may have been added behind them: their new records follow all others, and a note says so.
// Throws std::invalid_argument with both identities if a file or a topic was replaced; StatusError if one
// cannot be read now.
Job WithTrained(const Job& job, const std::vector<std::string>& trained);

}  // namespace leat::job
