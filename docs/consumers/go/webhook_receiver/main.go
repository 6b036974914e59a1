// Books the orders that come as webhooks: each order once, however often its event comes.
//
// The requests are those of a pgcourier sink of kind http with a secret (Standard Webhooks). SIGTERM
// ends it when the requests at hand are answered. In a web framework, copy isSigned and process; the
// body must be the bytes that came.
//
// Needs Go and the modules of go.mod. Run: go run ./webhook_receiver
// Environment: WEBHOOK_SECRET, DATABASE_URL, PORT (8480), WEBHOOK_HEADER_PREFIX (webhook-)
package main

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	consumer  = "billing"
	tolerance = 5 * time.Minute
	maxBody   = 1 << 20
)

var prefix = cmp.Or(os.Getenv("WEBHOOK_HEADER_PREFIX"), "webhook-")

var errDown = errors.New("the database cannot be reached")

type receiver struct {
	key       []byte
	databases *pgxpool.Pool
}

// Whether one of the signatures is that of our secret, for these bytes and about this time.
func (r *receiver) isSigned(headers http.Header, body []byte) bool {
	id, sentAt := headers.Get(prefix+"id"), headers.Get(prefix+"timestamp")
	seconds, err := strconv.ParseInt(sentAt, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte(id + "." + sentAt + "."))
	mac.Write(body)
	wanted := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	// While the sender changes its secret, there are two.
	for _, given := range strings.Fields(headers.Get(prefix + "signature")) {
		if hmac.Equal([]byte(given), wanted) { // in constant time
			return true
		}
	}
	return false
}

// The change. It need not be idempotent.
func book(ctx context.Context, tx pgx.Tx, body []byte) error {
	var order struct{ Order, Cents int64 }
	if err := json.Unmarshal(body, &order); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO booking (order_id, cents) VALUES ($1, $2)", order.Order, order.Cents)
	return err
}

// Accepts the event and makes the change in one transaction: both, or neither.
func (r *receiver) process(ctx context.Context, id string, body []byte) error {
	waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	database, err := r.databases.Acquire(waiting)
	if err != nil {
		return errDown
	}
	defer database.Release()
	err = pgx.BeginFunc(ctx, database, func(tx pgx.Tx) error {
		var accepted bool
		err := tx.QueryRow(ctx, "SELECT courier_inbox.accept($1, $2)", consumer, id).Scan(&accepted)
		if err != nil {
			return err
		}
		if !accepted {
			log.Println("came again:", id)
			return nil
		}
		return book(ctx, tx, body)
	})
	if err != nil && database.Conn().IsClosed() {
		return errDown
	}
	return err
}

func (r *receiver) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBody))
	id := request.Header.Get(prefix + "id")
	switch {
	case err != nil:
		response.WriteHeader(http.StatusRequestEntityTooLarge)
	case !r.isSigned(request.Header, body):
		response.WriteHeader(http.StatusUnauthorized)
	default:
		switch err := r.process(request.Context(), id, body); {
		case err == nil:
			response.WriteHeader(http.StatusNoContent)
		case errors.Is(err, errDown): // pgcourier waits, and charges the event nothing
			response.WriteHeader(http.StatusServiceUnavailable)
		default: // this event is in trouble: it comes again, and ends as a dead letter
			log.Printf("%s: %v", id, err)
			response.WriteHeader(http.StatusInternalServerError)
		}
	}
}

func main() {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WEBHOOK_SECRET"), "whsec_"))
	if err != nil || len(key) == 0 {
		log.Fatal("WEBHOOK_SECRET is no whsec_ and base64")
	}
	databases, err := pgxpool.New(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer databases.Close()
	server := &http.Server{
		Addr:        "127.0.0.1:" + cmp.Or(os.Getenv("PORT"), "8480"),
		Handler:     &receiver{key, databases},
		ReadTimeout: 30 * time.Second,
	}
	stopping, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	done := make(chan struct{})
	go func() {
		<-stopping.Done()
		server.Shutdown(context.Background())
		close(done)
	}()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		log.Fatal(err)
	}
	<-done
}
