-- The shop; this comment has a ; in it.
CREATE TABLE orders (id BIGINT, customer STRING, amount DECIMAL(10,2), placed TIMESTAMP);
INSERT INTO orders VALUES
  (1, 'alice', 49.99, TIMESTAMP '2026-01-31 10:00:00'),
  (2, 'bob; "the, builder"', 75.00, NULL),
  (3, NULL, 0.10, NULL);

CREATE STREAM TABLE totals SCHEDULE '1m' COMMENT 'per customer; always fresh' AS
SELECT customer, SUM(amount) AS total, COUNT(*) AS orders FROM orders GROUP BY customer;

UPDATE orders SET amount = 59.99 WHERE id = 1;
REFRESH STREAM TABLE totals;
REFRESH STREAM TABLE totals;
SELECT * FROM totals ORDER BY customer NULLS FIRST;
