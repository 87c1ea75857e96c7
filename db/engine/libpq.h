// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: libpq, the client library of PostgreSQL. It is loaded when the first server is
// opened, so programs and the runtime library also start on machines that do not have it.
// Thread-safe.

#include <libpq-fe.h>

#include "base/result.h"

namespace tw::db {

#define TW_LIBPQ_FUNCTIONS(X) \
  X(PQconnectdbParams)        \
  X(PQfinish)                 \
  X(PQstatus)                 \
  X(PQerrorMessage)           \
  X(PQparameterStatus)        \
  X(PQserverVersion)          \
  X(PQsetNoticeProcessor)     \
  X(PQexec)                   \
  X(PQprepare)                \
  X(PQexecPrepared)           \
  X(PQputCopyData)            \
  X(PQputCopyEnd)             \
  X(PQgetResult)              \
  X(PQresultStatus)           \
  X(PQresultErrorField)       \
  X(PQcmdStatus)              \
  X(PQcmdTuples)              \
  X(PQntuples)                \
  X(PQnfields)                \
  X(PQgetvalue)               \
  X(PQgetlength)              \
  X(PQclear)

// The functions of the pipeline mode, which libpq has from version 14 on. In this mode a program
// sends statements before the replies to earlier statements have arrived.
#ifdef LIBPQ_HAS_PIPELINING
#define TW_LIBPQ_PIPELINE_FUNCTIONS(X) \
  X(PQenterPipelineMode)               \
  X(PQexitPipelineMode)                \
  X(PQpipelineSync)                    \
  X(PQsendQueryPrepared)
#else
#define TW_LIBPQ_PIPELINE_FUNCTIONS(X)
#endif

struct Libpq {
#define X(name) decltype(&::name) name = nullptr;
  TW_LIBPQ_FUNCTIONS(X)
  TW_LIBPQ_PIPELINE_FUNCTIONS(X)
#undef X
  bool has_pipeline = false;  ///< true if the library has the functions of pipelines
};

/// Loads the library at the first call; later calls return the same object. Fails with Environment
/// if this machine does not have the library, or if it lacks a function.
Result<const Libpq*> libpq();

}  // namespace tw::db
