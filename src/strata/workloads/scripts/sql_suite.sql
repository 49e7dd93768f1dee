-- SPDX-License-Identifier: Apache-2.0
-- The parts of the workload sql-suite, in the spirit of the old mysql-bench (test-create, test-insert,
-- test-select, test-alter-table, test-big-tables), as procedures, so that no client comes between.
-- All content is a function of @seed and the row's number.

DELIMITER //

-- 70 hexadecimal digits and a space or two: text that hardly compresses to less than half.
CREATE FUNCTION text_of(number INT, seed BIGINT) RETURNS VARCHAR(80) DETERMINISTIC NO SQL
    RETURN CONCAT(MD5(CONCAT(seed, '/', number)), ' ', MD5(CONCAT(number, '/', seed)))//

-- The order in which rows are inserted, read and updated: each number once, as the seed shuffles them.
CREATE PROCEDURE shuffle(rows_wanted INT, seed BIGINT)
BEGIN
    DECLARE number INT DEFAULT 1;
    CREATE TABLE unshuffled (id INT NOT NULL PRIMARY KEY);
    CREATE TABLE shuffled (place INT NOT NULL PRIMARY KEY AUTO_INCREMENT, id INT NOT NULL);
    START TRANSACTION;
    WHILE number <= rows_wanted DO
        INSERT INTO unshuffled VALUES (number);
        SET number = number + 1;
    END WHILE;
    INSERT INTO shuffled (id) SELECT id FROM unshuffled ORDER BY MD5(CONCAT(seed, ':', id));
    COMMIT;
    DROP TABLE unshuffled;
END//

CREATE PROCEDURE create_tables(tables_wanted INT)
BEGIN
    DECLARE number INT DEFAULT 1;
    WHILE number <= tables_wanted DO
        EXECUTE IMMEDIATE CONCAT('CREATE TABLE many_', number,
            ' (i INT NOT NULL, d DOUBLE, f FLOAT, s CHAR(10), v VARCHAR(100), PRIMARY KEY (i))');
        SET number = number + 1;
    END WHILE;
END//

-- Fill each of them with one row, and read it.
CREATE PROCEDURE use_tables(tables_wanted INT, seed BIGINT)
BEGIN
    DECLARE number INT DEFAULT 1;
    DECLARE content VARCHAR(80);
    WHILE number <= tables_wanted DO
        SET content = text_of(number, seed);
        EXECUTE IMMEDIATE CONCAT('INSERT INTO many_', number, ' VALUES (', number, ", 1.5, 2.5, 'strata', '",
            content, "')");
        EXECUTE IMMEDIATE CONCAT('SELECT COUNT(*) INTO @ignored FROM many_', number);
        SET number = number + 1;
    END WHILE;
END//

-- The table of all parts that follow. Its first rows are committed one by one, the others by the thousand.
CREATE PROCEDURE insert_rows(first_place INT, last_place INT, rows_in_commit INT, seed BIGINT)
BEGIN
    DECLARE here INT DEFAULT first_place;
    DECLARE number INT;
    CREATE TABLE IF NOT EXISTS bench (id INT NOT NULL PRIMARY KEY, id2 INT NOT NULL, id3 INT NOT NULL,
        dummy CHAR(30) NOT NULL, content VARCHAR(80) NOT NULL, KEY by_id3 (id3));
    WHILE here <= last_place DO
        IF (here - first_place) MOD rows_in_commit = 0 THEN
            START TRANSACTION;
        END IF;
        SELECT id INTO number FROM shuffled WHERE place = here;
        INSERT INTO bench VALUES (number, number, number * 7 MOD 100003, 'ABCDEFGHIJ', text_of(number, seed));
        IF (here - first_place) MOD rows_in_commit = rows_in_commit - 1 OR here = last_place THEN
            COMMIT;
        END IF;
        SET here = here + 1;
    END WHILE;
END//

CREATE PROCEDURE select_by_key(rows_wanted INT)
BEGIN
    DECLARE here INT DEFAULT 1;
    WHILE here <= rows_wanted DO
        SELECT content INTO @ignored FROM bench WHERE id = (SELECT id FROM shuffled WHERE place = here);
        SET here = here + 1;
    END WHILE;
END//

-- A hundred rows of the secondary index at a time, each looked up in the table.
CREATE PROCEDURE select_by_range(ranges INT, rows_wanted INT)
BEGIN
    DECLARE here INT DEFAULT 1;
    DECLARE number INT;
    WHILE here <= ranges DO
        SELECT id * 7 MOD 100003 INTO number FROM shuffled WHERE place = here MOD rows_wanted + 1;
        SELECT SUM(LENGTH(content)) INTO @ignored
            FROM (SELECT content FROM bench FORCE INDEX (by_id3) WHERE id3 >= number ORDER BY id3 LIMIT 100) AS found;
        SET here = here + 1;
    END WHILE;
END//

CREATE PROCEDURE select_all()
BEGIN
    SELECT COUNT(*), SUM(id2) INTO @ignored, @ignored2 FROM bench;
    SELECT COUNT(*) INTO @ignored FROM (SELECT id3 MOD 100, MAX(content) FROM bench GROUP BY id3 MOD 100) AS found;
    SELECT MAX(place) INTO @ignored
        FROM (SELECT ROW_NUMBER() OVER (ORDER BY content) AS place FROM bench) AS found;
    SELECT COUNT(*) INTO @ignored FROM shuffled STRAIGHT_JOIN bench FORCE INDEX FOR JOIN (PRIMARY)
        ON bench.id = shuffled.id WHERE dummy LIKE 'ABC%';
END//

CREATE PROCEDURE update_by_key(rows_wanted INT, seed BIGINT)
BEGIN
    DECLARE here INT DEFAULT 1;
    DECLARE number INT;
    WHILE here <= rows_wanted DO
        SELECT id INTO number FROM shuffled WHERE place = here;
        UPDATE bench SET content = text_of(number, seed + 1) WHERE id = number;
        SET here = here + 1;
    END WHILE;
END//

CREATE PROCEDURE delete_by_key(rows_wanted INT)
BEGIN
    DECLARE here INT DEFAULT 1;
    WHILE here <= rows_wanted DO
        DELETE FROM bench WHERE id = (SELECT id FROM shuffled WHERE place = here);
        SET here = here + 1;
    END WHILE;
END//

-- A table of many columns, and a few hundred rows of it.
CREATE PROCEDURE big_table(columns_wanted INT, rows_wanted INT)
BEGIN
    DECLARE number INT DEFAULT 1;
    DECLARE definitions, literals LONGTEXT DEFAULT '';
    WHILE number <= columns_wanted DO
        SET definitions = CONCAT(definitions, IF(number > 1, ', ', ''), 'i', number, ' INT NOT NULL');
        SET literals = CONCAT(literals, IF(number > 1, ', ', ''), number * 7919 MOD 100003);
        SET number = number + 1;
    END WHILE;
    EXECUTE IMMEDIATE CONCAT('CREATE TABLE big (', definitions, ')');
    SET number = 1;
    WHILE number <= rows_wanted DO
        EXECUTE IMMEDIATE CONCAT('INSERT INTO big VALUES (', literals, ')');
        SET number = number + 1;
    END WHILE;
    SELECT SUM(i1) INTO @ignored FROM big;
END//

CREATE PROCEDURE drop_tables(tables_wanted INT)
BEGIN
    DECLARE number INT DEFAULT 1;
    WHILE number <= tables_wanted DO
        EXECUTE IMMEDIATE CONCAT('DROP TABLE many_', number);
        SET number = number + 1;
    END WHILE;
    DROP TABLE big, bench;
END//

DELIMITER ;
