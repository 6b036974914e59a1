-- A small shop: an order each second, and a receipt by mail for it.
WITH orders AS (
  SELECT 'order-' || substr(gen_random_uuid()::text, 1, 8) AS number
)
SELECT courier.publish('orders.paid', json_build_object('order', number), key => number),
  courier.publish('mail.receipt', json_build_object(
    'to', 'customer@example.org', 'subject', 'Your order ' || number, 'text', 'Thank you!'), key => number)
FROM orders \watch 1
