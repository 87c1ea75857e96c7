// SPDX-License-Identifier: Apache-2.0
#include "db/server_address.h"

#include <gtest/gtest.h>

#include "db/store.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

TEST(ServerAddress, OnlyTheTwoSchemesNameAServer) {
  EXPECT_TRUE(is_server("postgresql://tuning@host/schedules"));
  EXPECT_TRUE(is_server("postgres://"));
  for (const char* path : {"", "a.db", "/postgresql://a", "postgresql:/a", "file:postgresql://a"})
    EXPECT_FALSE(is_server(path)) << path;
}

TEST(ServerAddress, WhatLibpqReadsInOneWayIsAccepted) {
  for (const char* address :
       {"postgresql://", "postgresql:///schedules?host=/run/postgresql", "postgres://a@b:1/c",
        "postgresql://a@b1:1,b2:2/c?sslmode=verify-full", "postgresql://a%40b@[::1]/c",
        "postgresql:///?service=team&application_name=password"}) {
    EXPECT_TRUE(check_address(address)) << address;
    EXPECT_EQ(shown_database(address), address);
  }
}

TEST(ServerAddress, PasswordsAreRefusedAndNeverShown) {
  for (const char* address :
       {"postgresql://a:secret@host/db", "postgresql://:secret@host/db",
        "postgres://a:se@secret@h/d", "postgresql://a:x/secret@host/db",
        "postgresql://a:x?secret@host/db", "postgresql://host/db?password=secret",
        "postgresql://host/db?a=b&password=secret", "postgresql://host/db?pass%77ord=secret",
        "postgresql://host?%70assword=secret", "postgresql://host/db?sslpassword=secret",
        "postgresql://a:my secret@host/db"}) {
    const Status status = check_address(address);
    ASSERT_FALSE(status) << address;
    EXPECT_EQ(status.error().code, ErrorCode::Usage);
    EXPECT_EQ(status.error().message.find("secret"), std::string::npos) << status.error().message;
    EXPECT_EQ(shown_database(address).find("secret"), std::string::npos) << address;
    for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::ReadWrite})
      EXPECT_EQ(error_of(Store::open(address, mode)), status.error().message);
  }
}

TEST(ServerAddress, PathsAreShownAsTheyAre) {
  EXPECT_EQ(shown_database("a:secret@b.db"), "a:secret@b.db");
}

}  // namespace
}  // namespace tw::db
